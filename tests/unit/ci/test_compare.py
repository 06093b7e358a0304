"""Each kind of expectation: one run that meets it, one that does not, and the message for whoever mends it."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.ci.json_values import check_json, find, same
from sandbox_skills.ci.observed import Behaviour, Observed
from sandbox_skills.ci.texts import difference
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import Signalled, Stopped
from tests.unit.ci.observing import expect, failures, png, seen, sha256

PIXELS = png(3, 2)
BROKEN = 'Traceback\nKeyError: "x"'

KINDS: list[tuple[str, Observed, Observed, str]] = [
    (
        "{}",
        seen(0),
        seen(3, stderr=BROKEN),
        r"""exit: exit code 0 expected, but it ended with 3; stderr ends with 'Traceback\nKeyError: "x"'""",
    ),
    ("{exit: 2}", seen(2), seen(0), "exit: exit code 2 expected, but it ended with 0; it printed nothing"),
    (
        "{exit: 0}",
        seen(0),
        seen(Signalled(11)),
        "exit: exit code 0 expected, but it was ended by signal 11; it printed nothing",
    ),
    (
        "{}",
        seen(0),
        seen(Stopped("wall_time")),
        (
            "exit: exit code 0 expected, but it was stopped: out of time after 300 s (limits.wall_seconds);"
            " it printed nothing"
        ),
    ),
    (
        "{}",
        seen(0),
        seen(1, stderr="x", limits_hit=frozenset({"pids"})),
        "exit: exit code 0 expected, but it ended with 1; limits reached: pids; stderr ends with 'x'",
    ),
    (
        "{}",
        seen(0),
        seen(1, stdout="x", hints=("network_disabled: h (advice)",)),
        "exit: exit code 0 expected, but it ended with 1; stdout ends with 'x'; hint: network_disabled: h (advice)",
    ),
    (
        "{ending: memory}",
        seen(Stopped("memory")),
        seen(0),
        "ending: out of memory expected, but it ended with 0; it printed nothing",
    ),
    (
        "{ending: signalled}",
        seen(Signalled(9)),
        seen(Stopped("output")),
        (
            "ending: an end by a signal expected, but it was stopped: too much output after 67,108,864 bytes"
            " (limits.output_bytes); it printed nothing"
        ),
    ),
    (
        "{ending: exited}",
        seen(7),
        seen(Stopped("cpu_time")),
        (
            "ending: an end by itself expected, but it was stopped: out of processor time after 0 s"
            " (limits.cpu_seconds); it printed nothing"
        ),
    ),
    (
        "{stdout: {equals: ab}}",
        seen(stdout="ab"),
        seen(stdout="ac"),
        "stdout.equals: stdout is not the text that is expected",
    ),
    (
        "{stdout: {equals: ab}}",
        seen(stdout="ab"),
        seen(stdout="ab\n"),
        (
            "stdout.equals: stdout differs only in the line ends at its end: 0 expected, 1 found; a YAML text after |"
            " ends with one, after |- with none"
        ),
    ),
    (
        "{stderr: {contains: [a, b]}}",
        seen(stderr="b a"),
        seen(stderr="a"),
        "stderr.contains: stderr has no 'b'; it is 'a'",
    ),
    ("{stdout: {contains: a}}", seen(stdout="a"), seen(), "stdout.contains: stdout has no 'a'; it is empty"),
    (
        "{stdout: {regex: '^b.$'}}",
        seen(stdout="a\nbc\n"),
        seen(stdout="ab"),
        "stdout.regex: nothing in stdout matches '^b.$'; it is 'ab'",
    ),
    (
        "{stdout: {not: {equals: a}}}",
        seen(stdout="b"),
        seen(stdout="a"),
        "stdout.not.equals: stdout is exactly what it must not be: 'a'",
    ),
    (
        "{stdout: {not: {contains: err}}}",
        seen(stdout="b"),
        seen(stdout="one\ntwo err x\n"),
        "stdout.not.contains: stdout must not have 'err'; line 2 is 'two err x'",
    ),
    (
        "{stdout: {not: {regex: '^E'}}}",
        seen(stdout="aE"),
        seen(stdout="a\nE1"),
        "stdout.not.regex: stdout must not match '^E'; line 2 is 'E1'",
    ),
    (
        "{json: {equals: {a: 1}}}",
        seen(stdout='{"a": 1.0}'),
        seen(stdout='{"a": true}'),
        "stdout.json.equals: stdout is not the JSON that is expected",
    ),
    (
        "{json: {equals: null}}",
        seen(stdout="null"),
        seen(stdout="{"),
        (
            "stdout.json: stdout is not JSON: Expecting property name enclosed in double quotes: line 1 column 2"
            " (char 1); it is '{'"
        ),
    ),
    (
        "{json: {subset: {a: {b: [1, {c: x}]}}}}",
        seen(stdout='{"a": {"b": [1, {"c": "x", "d": 2}]}, "e": 3}'),
        seen(stdout='{"a": {"b": [1, {"c": "y"}]}}'),
        'stdout.json.subset: stdout at $.a.b[1].c: "x" expected, "y" found',
    ),
    (
        "{json: {subset: {a: 1}}}",
        seen(stdout='{"a": 1}'),
        seen(stdout='{"b": 1}'),
        "stdout.json.subset: stdout at $.a: 1 expected, nothing found",
    ),
    (
        "{json: {paths: {'$.a[*].b': [1, 2]}}}",
        seen(stdout='{"a": [{"b": 1}, {"b": 2}]}'),
        seen(stdout='{"a": [{"b": 1}]}'),
        "stdout.json.paths: stdout at $.a[*].b: [1, 2] expected, 1 found",
    ),
    (
        "{json: {paths: {$.a: 1}}}",
        seen(stdout='{"a": 1}'),
        seen(stdout="{}"),
        "stdout.json.paths: stdout at $.a: 1 expected, nothing found",
    ),
    (
        "{files: [{path: 'out/*.txt'}]}",
        seen(files={"out/a.txt": b""}),
        seen(files={"out/a.csv": b""}),
        "files.count: 1 or more files expected at 'out/*.txt', 0 found; the run left out/a.csv",
    ),
    (
        "{files: [{path: 'out/*', count: 2}]}",
        seen(files={"out/a": b"", "out/b": b""}),
        seen(files={"out/a": b""}),
        "files.count: 2 files expected at 'out/*', 1 found; the run left out/a",
    ),
    (
        "{files: [{path: 'out/*', count: {max: 1}}]}",
        seen(),
        seen(files={"out/a": b"", "out/b": b""}),
        "files.count: 0 to 1 files expected at 'out/*', 2 found; the run left out/a, out/b",
    ),
    (
        "{files: [{path: out/a, content: {contains: x}}]}",
        seen(files={"out/a": b"x"}),
        seen(files={"out/a": b"y"}),
        "out/a.contains: out/a has no 'x'; it is 'y'",
    ),
    (
        "{files: [{path: out/a, json: {equals: [1]}}]}",
        seen(files={"out/a": b"[1]"}),
        seen(files={"out/a": b"[2]"}),
        "out/a.json.equals: out/a is not the JSON that is expected",
    ),
    (
        f"{{files: [{{path: out/a, sha256: {sha256(b'x')}}}]}}",
        seen(files={"out/a": b"x"}),
        seen(files={"out/a": b"y"}),
        f"files.sha256: out/a has the SHA-256 {sha256(b'y')}, not {sha256(b'x')}",
    ),
    (
        "{files: [{path: out/a.png, mime: image/png}]}",
        seen(files={"out/a.png": PIXELS}),
        seen(files={"out/a.png": b"x"}),
        "files.mime: out/a.png is text/plain by its content and name, not image/png",
    ),
    (
        "{files: [{path: out/a.png, image: {width: 3, height: 2}}]}",
        seen(files={"out/a.png": PIXELS}),
        seen(files={"out/a.png": png(3, 4)}),
        "files.image: out/a.png has a height of 4 pixels, not 2",
    ),
    (
        "{files: [{path: out/a.png, image: {}}]}",
        seen(files={"out/a.png": PIXELS}),
        seen(files={"out/a.png": b"GIF"}),
        "files.image: out/a.png is no image of a known kind",
    ),
    (
        "{files: [{path: out/a}], no_other_files: true}",
        seen(files={"out/a": b"", "work/c": b""}),
        seen(files={"out/a": b"", "out/b": b""}),
        "no_other_files: out/ has files that nothing expects: out/b",
    ),
    (
        "{max_seconds: 2}",
        seen(wall_seconds=1.9),
        seen(wall_seconds=2.34),
        "max_seconds: it took 2.34 s, more than 2",
    ),
    (
        "{behaviour: {writes: ['out/**']}}",
        seen(behaviour=Behaviour(writes=("out/a/b",))),
        seen(behaviour=Behaviour(writes=("out/a", "home/.x"))),
        "behaviour.writes: it wrote home/.x, which none of the places allowed has: out/**",
    ),
    (
        "{behaviour: {writes: []}}",
        seen(behaviour=Behaviour(writes=())),
        seen(behaviour=Behaviour(writes=(), complete=False)),
        "behaviour.writes: not every file of the workspace could be looked at (collect in the settings)",
    ),
    (
        "{behaviour: {network: none}}",
        seen(behaviour=Behaviour(network=())),
        seen(behaviour=Behaviour(network=("a.b:443",))),
        "behaviour.network: no attempt at the network expected, but it tried a.b:443",
    ),
    (
        "{behaviour: {network: attempted}}",
        seen(behaviour=Behaviour(network=("a.b:443",))),
        seen(behaviour=Behaviour(network=())),
        "behaviour.network: an attempt at the network expected, but there was none",
    ),
    (
        "{ending: any, behaviour: {network: none}}",
        seen(Signalled(9), behaviour=Behaviour(network=())),
        seen(Stopped("memory"), behaviour=Behaviour()),
        "behaviour.network: what it tried is not known: the record was lost with the sandbox",
    ),
]


@pytest.mark.parametrize(
    ("text", "good", "bad", "message"), KINDS, ids=[f"{n}-{row[0]}" for n, row in enumerate(KINDS)]
)
def test_each_kind_holds_and_fails_with_a_message_to_act_on(
    text: str, good: Observed, bad: Observed, message: str
) -> None:
    assert failures(text, good) == ()
    assert [f"{one.expectation}: {one.message}" for one in failures(text, bad)] == [message]


def test_a_text_that_differs_is_shown_as_a_diff() -> None:
    (failure,) = failures('{stdout: {equals: "a\\nb\\nc\\n"}}', seen(stdout="a\nx\nc\n"))
    assert failure.diff == ("--- expected", "+++ found", "@@ -1,3 +1,3 @@", " a", "-b", "+x", " c")


def test_a_snapshot_is_compared_and_one_that_is_missing_says_how_to_keep_it() -> None:
    text, what = "{stdout: {snapshot: a.txt}}", seen(stdout="new\n")
    assert failures(text, what, {"a.txt": "new\n"}) == ()
    (other,) = failures(text, what, {"a.txt": "old\n"})
    assert other.message == "stdout is not the snapshot 'a.txt'; where it is right now, --update keeps it"
    assert other.diff[-2:] == ("-old", "+new")
    (missing,) = failures(text, what)
    assert missing.message == "the snapshot 'a.txt' was never kept: --update keeps what stdout is now"


def test_what_was_cut_is_told_and_not_compared_in_silence() -> None:
    cut = seen(stdout="a", stdout_truncated=True)
    assert (
        failures("{stdout: {equals: a}}", cut)[0].message
        == "stdout was cut after 1 bytes (limits.stdout_bytes)"
    )
    told = "stdout was cut after 1 bytes (limits.stdout_bytes)"
    for text in (
        "{stdout: {not: {contains: b}}}", "{stdout: {not: {regex: b}}}", "{stdout: {contains: b}}",
        "{json: {equals: 1}}",
    ):  # fmt: skip
        assert failures(text, cut)[0].message == told, text
    nothing = seen(stdout="", stdout_truncated=True)
    assert failures('{stdout: {equals: ""}}', nothing)[0].message.startswith("stdout was cut after 0 bytes")
    assert failures("{stdout: {contains: a}}", cut) == ()
    many = seen(files={"out/a": b""}, limits_hit=frozenset({"collected_files"}))
    told = failures("{files: [{path: out/a}]}", many)[0].message
    assert told == "not every file could be looked at: collected_files reached (collect in the settings)"


def test_every_failure_is_told() -> None:
    text = "{exit: 1, stdout: {contains: [a, b]}, max_seconds: 1}"
    told = [one.expectation for one in failures(text, seen(0, stdout="c", wall_seconds=2))]
    assert told == ["exit", "stdout.contains", "stdout.contains", "max_seconds"]


class TestBounds:
    def test_the_diff_of_long_texts_is_short_and_quick(self) -> None:
        before = "\n".join(f"line {n % 7}" for n in range(100_000))
        after = "\n".join(f"line {n % 5}" for n in range(100_000))
        started = time.process_time()
        diff = difference(before, after)
        assert time.process_time() - started < 5
        assert len(diff) < 300
        assert diff[-1] == "(from line 3, cut)"

    def test_lines_of_any_length_are_cut(self) -> None:
        assert max(map(len, difference("a" * 10_000, "b" * 10_000))) < 400

    def test_json_that_is_nested_too_deep_is_a_failure(self) -> None:
        text = "[" * 100_000 + "]" * 100_000
        (failure,) = failures("{json: {equals: []}}", seen(stdout=text))
        assert failure.expectation == "stdout.json"

    @pytest.mark.parametrize(
        "path",
        [
            "$[", "$.~", "$[?foo(@)]", "$[99999999999999999999]", f"$[{'9' * 5000}]", "$[?@.a==1e400]",
            "$" + ".a" * 5000, f"$[?{'(' * 3000}@.a{')' * 3000}]",
        ],
        ids=lambda path: f"{path[:6]}-{len(path)}",
    )  # fmt: skip
    def test_a_path_that_is_none_is_a_value_error_and_nothing_else(self, path: str) -> None:
        with pytest.raises(ValueError, match="JSONPath") as caught:
            find(path, {"a": [1]})
        assert len(str(caught.value)) < 600

    def test_a_value_too_deep_for_a_path_is_a_failure_of_that_path(self) -> None:
        (failure,) = failures("{json: {paths: {$..a: 1}}}", seen(stdout="[" * 200 + "]" * 200))
        assert failure.expectation == "stdout.json.paths"
        assert failure.message == "stdout at $..a: the JSONPath '$..a' goes too deep to be followed"

    def test_a_stranger_s_bytes_are_no_image_and_no_error(self) -> None:
        for data in (
            b"",
            b"\x89PNG\r\n\x1a\n",
            b"\xff\xd8\xff",
            b"<svg width='9e999999'/>",
            b"II*\0" + b"\xff" * 40,
        ):
            told = failures("{files: [{path: out/a, image: {width: 1}}]}", seen(files={"out/a": data}))
            assert [one.expectation for one in told] == ["files.image"], data


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(JSON)
def test_a_value_is_equal_to_and_a_subset_of_itself(value: object) -> None:
    text = json.dumps(value)
    written = json.dumps({"equals": value, "subset": value})
    assert list(check_json("x", expect(f"{{json: {written}}}").json_value, text)) == []  # type: ignore[arg-type]


@given(JSON, JSON)
def test_values_are_the_same_only_where_their_json_is(one: object, other: object) -> None:
    texts = [json.dumps(value, sort_keys=True) for value in (one, other)]
    assert same(one, other) == (texts[0] == texts[1])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("package", "text"),
    [("jsonpath_rfc9535", "{json: {paths: {$.a: 1}}}"), ("imagesize", "{files: [{path: out/a, image: {}}]}")],
)
def test_what_an_extra_brings_is_named_where_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, package: str, text: str
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(SettingsError) as caught:
        failures(text, seen(stdout="{}", files={"out/a": b""}))
    assert caught.value.hint == "pip install 'sandbox-skills[test]'"
