"""Tools made and removed on disk: whole or not at all, only our own, never outside the root."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sandbox_skills.catalog import (
    DefinedTools,
    ToolDefinition,
    define,
    define_store,
    defined_tools,
    load_manifest,
    load_skill,
    made_at_run_time,
    read_definition,
    scan_skill_dirs,
    sweep_defined_tools,
)
from sandbox_skills.catalog.define_store import reading, writing
from sandbox_skills.errors import (
    SettingsError,
    ToolDefinitionError,
    ToolNotFoundError,
    ToolProtectedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from sandbox_skills.catalog.define_store import SkillWriter


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "user" / "skills"


@pytest.fixture
def tools(root: Path, tmp_path: Path) -> Iterator[DefinedTools]:
    with defined_tools(root, temporary=tmp_path) as made:
        yield made


def definition(
    name: str = "fetch_weather", code: str = "return 1", *, persistent: bool = True, **more: object
) -> ToolDefinition:
    return read_definition({"name": name, "description": "d", "code": code, "persistent": persistent, **more})


def by_hand(root: Path, name: str = "fetch-weather") -> Path:
    path = root / name
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text(f"---\nname: {name}\ndescription: By hand.\n---\nBody")
    return path


def tree(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def skills(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir() if not path.name.startswith("."))


def left_over(root: Path) -> list[str]:
    return sorted(
        path.name
        for path in root.iterdir()
        if path.name.startswith(".define") and path.name != ".define-lock"
    )


def test_a_persistent_tool_is_a_skill_in_the_root(tools: DefinedTools, root: Path) -> None:
    made = tools.define(definition())
    assert (made.directory, made.persistent, made.replaced) == (root / "fetch-weather", True, False)
    (spec,) = scan_skill_dirs([root])
    assert spec.dir == str(made.directory)
    assert load_manifest(spec).tools == (made.tool,)
    assert left_over(root) == []


def test_it_is_there_for_the_next_provider(root: Path) -> None:
    with defined_tools(root) as first:
        first.define(definition())
    with defined_tools(root) as second:
        assert skills(root) == ["fetch-weather"]
        second.remove("fetch_weather")
    assert skills(root) == []


def test_another_tool_lives_as_long_as_its_provider_and_leaves_the_root_alone(
    root: Path, tmp_path: Path
) -> None:
    with defined_tools(root, temporary=tmp_path) as made:
        tool = made.define(definition(persistent=False))
        assert load_skill(tool.directory).spec is not None
        assert made.roots == (root, tool.directory.parent)
    assert not tool.directory.exists()
    assert list(tmp_path.iterdir()) == []


def test_without_a_root_only_tools_that_are_not_persistent_are_made(tmp_path: Path) -> None:
    with defined_tools(None, temporary=tmp_path) as made:
        assert made.define(definition(persistent=False)).directory.parent == made.roots[0]
        assert len(made.roots) == 1
        with pytest.raises(ToolDefinitionError) as caught:
            made.define(definition())
        assert (caught.value.violations[0].field, caught.value.hint) == (
            "persistent",
            "Define it without persistent.",
        )
        made.remove("fetch_weather")


def test_a_tool_is_replaced_whole(tools: DefinedTools, root: Path) -> None:
    tools.define(definition(code="return 1", parameters={"p": {"type": "string"}}))
    made = tools.define(definition(code="return 2", language="javascript"))
    assert made.replaced
    assert sorted(tree(root / "fetch-weather")) == [
        ".defined-tool.json",
        "SKILL.md",
        "scripts/fetch_weather.js",
        "tools.json",
    ]
    assert left_over(root) == []


def test_a_persistent_definition_counts_more_than_an_older_one_that_is_not(tools: DefinedTools) -> None:
    old = tools.define(definition(persistent=False)).directory
    tools.define(definition())
    assert not old.exists()


def test_a_definition_that_is_not_persistent_leaves_the_persistent_one(tools: DefinedTools) -> None:
    kept, made = tools.define(definition()), tools.define(definition(persistent=False))
    assert kept.directory.exists()
    assert made.directory.exists()
    tools.remove("fetch_weather")
    assert not kept.directory.exists()
    assert not made.directory.exists()


@pytest.mark.parametrize("persistent", [True, False])
def test_a_skill_made_by_hand_is_neither_replaced_nor_hidden_nor_removed(
    tools: DefinedTools, root: Path, *, persistent: bool
) -> None:
    by_hand(root)
    before = tree(root)
    with pytest.raises(ToolProtectedError):
        tools.define(definition(persistent=persistent))
    with pytest.raises(ToolProtectedError):
        tools.remove("fetch_weather")
    assert tree(root) == {**before, ".define-lock": ""}


CHANGES = [
    "SKILL.md",
    "tools.json",
    "scripts/fetch_weather.py",
    ".defined-tool.json",
    "notes.md",
    "scripts/more.py",
]


@pytest.mark.parametrize("path", CHANGES)
def test_a_tool_that_was_edited_by_hand_belongs_to_its_editor(
    tools: DefinedTools, root: Path, path: str
) -> None:
    made = tools.define(definition())
    assert made_at_run_time(made.directory)
    with (made.directory / path).open("a") as file:
        file.write(" ")
    if path == ".defined-tool.json":
        (made.directory / path).write_text("{}")
    assert not made_at_run_time(made.directory)
    with pytest.raises(ToolProtectedError):
        tools.define(definition(code="return 2"))
    with pytest.raises(ToolProtectedError):
        tools.remove("fetch_weather")


def test_two_tools_whose_names_give_one_skill_do_not_replace_each_other(
    tools: DefinedTools, root: Path
) -> None:
    tools.define(definition("a_b"))
    with pytest.raises(ToolDefinitionError, match="'a-b' already holds the tool 'a_b'"):
        tools.define(definition("a__b"))
    with pytest.raises(ToolProtectedError):
        tools.remove("a__b")
    assert skills(root) == ["a-b"]


@pytest.mark.parametrize(
    "name", ["no_such", "", "..", "../user", "a/b", ".define-work", "A", "a" * 65, "a\n", "\0"]
)
def test_to_remove_what_is_not_there_is_said_and_makes_nothing(
    tools: DefinedTools, root: Path, name: str
) -> None:
    with pytest.raises(ToolNotFoundError):
        tools.remove(name)
    assert not root.exists()


def test_what_is_no_skill_was_not_made_at_run_time(root: Path) -> None:
    assert not made_at_run_time(root / "nothing")
    root.mkdir(parents=True)
    assert not made_at_run_time(root / "nothing")


def test_a_link_of_the_name_is_neither_followed_nor_replaced(
    tools: DefinedTools, root: Path, tmp_path: Path
) -> None:
    with defined_tools(tmp_path / "elsewhere") as other:
        target = other.define(definition()).directory
    root.mkdir(parents=True)
    (root / "fetch-weather").symlink_to(target)
    before = tree(target)
    with pytest.raises(ToolProtectedError):
        tools.define(definition())
    with pytest.raises(ToolProtectedError):
        tools.remove("fetch_weather")
    assert tree(target) == before
    (root / "no-such").symlink_to("nothing")
    with pytest.raises(ToolProtectedError):
        tools.define(definition("no_such"))


@pytest.mark.parametrize("kind", ["link", "fifo", "large", "many", "deep", "empty"])
def test_a_skill_with_what_is_never_made_here_is_not_ours(
    tools: DefinedTools, kind: str, tmp_path: Path
) -> None:
    directory = tools.define(definition()).directory
    script = directory / "scripts/fetch_weather.py"
    match kind:
        case "link":
            script.rename(tmp_path / "same.py")
            script.symlink_to(tmp_path / "same.py")
        case "fifo":
            os.mkfifo(directory / "pipe")
        case "large":
            with script.open("ab") as file:
                file.truncate(10**9)
        case "many":
            for number in range(9):
                (directory / f"f{number}").touch()
        case "deep":
            (directory / "scripts/a").mkdir()
        case _:
            (directory / "empty").mkdir()
    assert not made_at_run_time(directory)


@pytest.mark.parametrize("name", [".define-work", ".define-old", ".define-lock"])
def test_links_with_our_working_names_are_not_followed(
    tools: DefinedTools, root: Path, tmp_path: Path, name: str
) -> None:
    victim = by_hand(tmp_path, "victim")
    root.mkdir(parents=True)
    (root / name).symlink_to(victim)
    if name == ".define-lock":
        with pytest.raises(SettingsError):
            tools.define(definition())
    else:
        tools.define(definition())
    assert sorted(tree(victim)) == ["SKILL.md"]


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with defined_tools(tmp_path / "link") as made:
        made.define(definition())
    assert skills(tmp_path / "real") == ["fetch-weather"]


def test_a_root_that_cannot_be_written_is_a_setting_to_correct(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with defined_tools(tmp_path / "file") as made, pytest.raises(SettingsError, match="cannot be written"):
        made.define(definition())


def test_a_read_only_root_does_not_hinder_tools_that_are_not_persistent(
    tools: DefinedTools, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.mkdir(parents=True)
    honest = writing

    def refuse(place: Path) -> AbstractContextManager[SkillWriter]:
        assert place != root, "opened for writing"
        return honest(place)

    monkeypatch.setattr(define, "writing", refuse)
    tools.define(definition(persistent=False))
    tools.remove("fetch_weather")


class CrashError(Exception):
    """Stands for the end of the process."""


@pytest.mark.parametrize("step", ["the first rename", "the second rename"])
@pytest.mark.parametrize("recovery", ["at once", "by the next writer"])
def test_a_replacement_that_fails_leaves_the_tool_that_was_there(
    tools: DefinedTools, root: Path, monkeypatch: pytest.MonkeyPatch, step: str, recovery: str
) -> None:
    tools.define(definition(code="return 1"))
    before = tree(root / "fetch-weather")
    honest, calls = os.rename, iter(["the first rename", "the second rename"])

    def crash(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        if next(calls, None) == step:
            raise CrashError
        honest(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", crash)
        if recovery == "by the next writer":
            patch.setattr(define_store.SkillWriter, "recover", lambda _: None)
        with pytest.raises(CrashError):
            tools.define(definition(code="return 2"))
    if recovery == "by the next writer":
        assert left_over(root)
        with writing(root):
            pass
    assert tree(root / "fetch-weather") == before
    assert left_over(root) == []


def test_a_full_disk_leaves_no_part_of_a_tool(
    tools: DefinedTools, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SettingsError, match="No space left on device"):
            tools.define(definition())
    assert skills(root) == left_over(root) == []


def test_many_defines_at_once_leave_one_of_them_whole(tools: DefinedTools, root: Path) -> None:
    sources = {number: definition(code=f"return {number}") for number in range(20)}
    stop, seen = threading.Event(), list[str]()

    def watch() -> None:
        while not stop.is_set():
            with reading(root) as reader:
                seen.append(str(reader.tool_of("fetch-weather")))

    tools.define(sources[0])
    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(tools.define, sources.values()))
    stop.set()
    watcher.join()
    script = (root / "fetch-weather/scripts/fetch_weather.py").read_text()
    assert script in {item.source for item in sources.values()}
    assert skills(root) == ["fetch-weather"]
    assert left_over(root) == []
    assert made_at_run_time(root / "fetch-weather")


def test_defines_and_removals_at_once_end_with_a_whole_tool_or_none(tools: DefinedTools, root: Path) -> None:
    def work(number: int) -> None:
        if number % 2:
            tools.define(definition(persistent=number % 4 == 1))
        else:
            try:
                tools.remove("fetch_weather")
            except (ToolNotFoundError, ToolProtectedError):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    for place in tools.roots:
        assert left_over(place) == []
        assert all(made_at_run_time(place / skill) for skill in skills(place))


PROVIDER = """
import sys, pathlib
from sandbox_skills.catalog import defined_tools, read_definition
tool = read_definition({"name": "fetch_weather", "description": "d", "code": "return 1"})
with defined_tools(None, temporary=pathlib.Path(sys.argv[1])) as made:
    print(made.define(tool).directory, flush=True)
    sys.stdin.read()
"""


def test_tools_of_a_provider_that_was_killed_are_swept_and_those_of_a_living_one_stay(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROVIDER, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        skill = Path(process.stdout.readline().strip())
        assert sweep_defined_tools(tmp_path) == []
        assert (skill / "SKILL.md").exists()
        process.kill()
        process.wait()
    assert sweep_defined_tools(tmp_path) == [skill.parent.name]
    skill.parent.mkdir()
    with defined_tools(None, temporary=tmp_path) as made:
        assert list(tmp_path.iterdir()) == list(made.roots)
    assert list(tmp_path.iterdir()) == []


def test_a_place_for_temporary_tools_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    with (
        pytest.raises(SettingsError, match="cannot be written"),
        defined_tools(None, temporary=tmp_path / "no"),
    ):
        pass


REMOVER = """
import sys, pathlib
from sandbox_skills.catalog import defined_tools
print("start", flush=True)
with defined_tools(pathlib.Path(sys.argv[1])) as made:
    made.remove("fetch_weather")
"""


def test_processes_wait_for_one_another(tools: DefinedTools, root: Path) -> None:
    tools.define(definition())
    with writing(root) as writer:
        other = subprocess.Popen([sys.executable, "-c", REMOVER, str(root)], stdout=subprocess.PIPE)
        assert other.stdout is not None
        assert other.stdout.readline() == b"start\n"
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.3)
        assert writer.exists("fetch-weather")
    other.communicate(timeout=10)
    assert (other.returncode, skills(root)) == (0, [])


def test_the_marker_names_its_tool(tools: DefinedTools) -> None:
    directory = tools.define(definition()).directory
    assert json.loads((directory / ".defined-tool.json").read_text())["tool"] == "fetch_weather"
    assert Path(directory / "SKILL.md").stat().st_mode & 0o111 == 0
