"""Sources and targets of inputs, as models write them."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sandbox_skills.errors import ArtifactNameError, InputError, PathEscapeError, RequestError
from sandbox_skills.spec import WORKSPACE
from sandbox_skills.workspace.input_refs import (
    ArtifactSource,
    HostSource,
    SkillSource,
    Source,
    WorkspaceSource,
    parse_source,
    source_name,
    target_path,
)


@pytest.mark.parametrize(
    ("text", "expected", "name"),
    [
        ("artifact://item@123", ArtifactSource("item", 123), "item"),
        ("artifact://tail@", ArtifactSource("tail@"), "tail@"),
        ("artifact://bad@v1", ArtifactSource("bad@v1"), "bad@v1"),
        ("artifact://a@b@c", ArtifactSource("a@b@c"), "a@b@c"),
        ("artifact://a@b@123", ArtifactSource("a@b", 123), "a@b"),
        ("artifact://uploads/b.txt@2", ArtifactSource("uploads/b.txt", 2), "b.txt"),
        (" host:///data/a b.csv ", HostSource(PurePosixPath("/data/a b.csv")), "a b.csv"),
        ("host:////data//./x", HostSource(PurePosixPath("/data/x")), "x"),
        ("workspace://out/a.txt", WorkspaceSource(WORKSPACE / "out/a.txt"), "a.txt"),
        ("workspace://out/../work/a", WorkspaceSource(WORKSPACE / "work/a"), "a"),
        ("workspace://inputs/a", WorkspaceSource(WORKSPACE / "work/inputs/a"), "a"),
        ("skill://n/scripts/msg.txt", SkillSource("n", PurePosixPath("scripts/msg.txt")), "msg.txt"),
        ("skill://n", SkillSource("n", PurePosixPath()), "n"),
        ("skill://n/", SkillSource("n", PurePosixPath()), "n"),
    ],
)
def test_a_source_is_read_by_its_scheme(text: str, expected: Source, name: str) -> None:
    assert parse_source(text) == expected
    assert source_name(expected) == name


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("artifact://@123", ArtifactNameError),
        ("artifact:///etc/passwd", PathEscapeError),
        ("host://etc/passwd", InputError),
        ("host:///../x", PathEscapeError),
        ("workspace:///etc/passwd", PathEscapeError),
        ("workspace://../x", PathEscapeError),
        ("workspace://out/a\\b", PathEscapeError),
        ("skill://n/../x", PathEscapeError),
        ("http://example.org/x", InputError),
        ("file:///x", InputError),
        ("HOST:///x", InputError),
        ("x.csv", InputError),
        ("", InputError),
        *((f"{scheme}://", InputError) for scheme in ("artifact", "host", "workspace", "skill")),
        ("host:///", InputError),
    ],
)
def test_what_is_no_source_is_refused(text: str, kind: type[RequestError]) -> None:
    with pytest.raises(kind):
        parse_source(text)


@given(
    st.one_of(
        st.text(),
        st.builds("{}://{}".format, st.sampled_from(["artifact", "host", "workspace", "skill"]), st.text()),
    ),
    st.text(max_size=40),
)
@example("workspace://skills/x", "")
@example("skill:///x", "")
def test_any_source_goes_to_one_place_in_the_workspace_or_is_refused(text: str, to: str) -> None:
    try:
        source = parse_source(text)
        name = source_name(source)
        target = target_path(to, name)
    except RequestError:
        return
    assert "/" not in name
    assert name not in {"", ".", ".."}
    assert target.is_relative_to(WORKSPACE)
    assert target != WORKSPACE
    assert ".." not in target.parts
    assert not target.is_relative_to(WORKSPACE / "skills")
    if isinstance(source, WorkspaceSource):
        assert source.path.is_relative_to(WORKSPACE)
    if isinstance(source, SkillSource):
        assert not source.path.is_absolute()
