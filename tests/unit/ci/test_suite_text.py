"""Files of cases: what they say, and every mistake with its line."""

from __future__ import annotations

import json
import textwrap
from contextlib import suppress
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sandbox_skills.catalog.scaffold import scaffold
from sandbox_skills.ci.schema import suite_schema
from sandbox_skills.ci.suite_text import MAX_CASES, ReadSuite, read_suite
from sandbox_skills.ci.yaml_tree import MAX_CHARACTERS, TreeError, read_tree, typed
from sandbox_skills.errors import SuiteError

ROOT = Path(__file__).parents[3]
SAMPLES = sorted((ROOT / "skills").glob("*/tests/*.yaml"))


def read(text: str) -> ReadSuite:
    return read_suite(textwrap.dedent(text), "t.yaml")


def told(text: str) -> list[str]:
    """Returns every complaint about a file."""
    with pytest.raises(SuiteError) as caught:
        read(text)
    assert caught.value.hint
    return caught.value.message.splitlines()


def test_a_case_says_what_is_run_and_what_must_come_of_it() -> None:
    suite = read("""
        smoke: {off: {help: it asks for a display}}
        cases:
          - name: adds
            script: scripts/sum.py
            args: [1.10, on, 2026-01-05]
            env: {LEVEL: 5}
            expect:
              exit: 3
              stdout: {contains: a, regex: [b, c], not: {contains: d}}
              files: [{path: out/*, count: 2}]
        """)
    (placed,) = suite.cases
    assert (placed.file, placed.line) == ("t.yaml", 4)
    # Text stays as it is written, whatever YAML 1.1 would make of it.
    assert placed.case.args == ("1.10", "on", "2026-01-05")
    assert placed.case.env == {"LEVEL": "5"}
    assert placed.case.expect.exit == 3
    assert placed.case.expect.stdout is not None
    assert placed.case.expect.stdout.regex == ("b", "c")
    assert placed.case.expect.files[0].count.most == 2
    assert suite.smoke.off == {"help": "it asks for a display"}


def test_values_of_any_kind_are_what_json_has() -> None:
    (placed,) = read("""
        cases:
          - {name: a, tool: t, arguments: {n: 5, x: 1.5, yes: true, no: null, s: "5", w: on, l: [~, {b: 0x1f}]}}
        """).cases
    assert placed.case.arguments == {
        "n": 5,
        "x": 1.5,
        "yes": True,
        "no": None,
        "s": "5",
        "w": "on",
        "l": [None, {"b": 31}],
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "t.yaml:1:1: the file: is empty: write a list of cases"),
        ("- a", "t.yaml:1:1: the file: is no mapping with a list of cases"),
        ("cases:\n- name: [", "t.yaml:3:1: did not find expected node content"),
        ("cases: *a", "t.yaml:1:8: an alias (*name) is not read here: write the value out, or quote it"),
        ("cases: &a []", "t.yaml:1:8: an anchor (&name) is not read here: delete it, or quote the text"),
        ("cases: !a []", "t.yaml:1:8: a tag (!name) is not read here: delete it, or quote the text"),
        ("cases: []\ncases: []", "t.yaml:2:1: the key 'cases' is there twice"),
        ("cases: []\n---\ncases: []", "t.yaml:2:1: there is a second document"),
        ("case: []", "t.yaml:1:7: case: is no key that is known; did you mean cases?"),
        ("cases: 5", "t.yaml:1:8: cases: is no list"),
        ("cases:\n- 5", "t.yaml:2:3: cases.0: is no mapping: write name, run and expect"),
        ("cases:\n- run: x", "t.yaml:2:3: cases.0.name: is missing"),
        ("cases:\n- name: a", "t.yaml:2:3: cases.0: give one of run, script and tool"),
        (
            "smoke: {off: {help: x}}",
            "t.yaml:1:21: smoke.off.help: string should have at least 3 characters (got 'x')",
        ),
    ],
)
def test_a_file_that_is_none_is_told_with_its_line(text: str, complaint: str) -> None:
    assert told(text) == [complaint]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("run: x\nscript: y", "3:3: cases.0: give one of run, script and tool, not run and script"),
        ("run: x\nargs: [1]", "3:3: cases.0: args belongs to script, and this case has run"),
        ("tool: x\nstdin: y", "3:3: cases.0: a tool reads its arguments from standard input: leave stdin out"),
        ("run: x\nexpcet: {}", "5:11: cases.0.expcet: is no key that is known; did you mean expect?"),
        ("run: x\nexpect: {exit: nul}", ("5:18: cases.0.expect.exit: input should be a valid integer, unable to"
         " parse string as an integer (got 'nul')")),
        ("run: x\nexpect: {exit: 0, ending: memory}", ("5:11: cases.0.expect: a program that is ended by memory has"
         " no exit code: give one of them")),
        ("run: x\nexpect: {stdout: {regex: (}}", ("5:28: cases.0.expect.stdout.regex.0: is no regular expression:"
         " missing ), unterminated subpattern at position 0 (got '(')")),
        ("run: x\nexpect: {stdout: {contain: a}}", ("5:30: cases.0.expect.stdout.contain: is no key that is known;"
         " did you mean contains?")),
        ("run: x\nexpect: {stdout: a}", "5:20: cases.0.expect.stdout: is no mapping: write key: value lines below it"),
        ("run: x\nexpect: {files: [{path: ../x}]}", ("5:27: cases.0.expect.files.0.path: the pattern '../x' contains"
         " '..' (got '../x')")),
        ("run: x\nexpect: {json: {paths: {a: 1}}}", ("5:30: cases.0.expect.json.paths.a.[key]: is no JSONPath: it"
         " starts with $ (got 'a')")),
        ("run: x\nfiles: {a: {}}", "5:14: cases.0.files.a: give either content or path"),
        ("run: x\nmatrix: {x: []}", "5:15: cases.0.matrix.x: is no list of values"),
        ("run: x\nmatrix: [{x: 1}, {y: 1}]", "5:20: cases.0.matrix.1: has not the names of the rows above: x"),
        ("run: x\nmatrix: {x: [1]}", "5:11: cases.0.matrix: {{x}} stands nowhere in the case"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_case_is_told_with_its_line(lines: str, complaint: str) -> None:
    body = textwrap.indent(lines, "  ")
    assert told(f"cases:\n\n- name: a\n{body}") == [f"t.yaml:{complaint}"]


def test_every_mistake_is_told_and_names_are_each_ones_own() -> None:
    lines = told("cases:\n- {name: a, run: x}\n- {name: a, run: x}\n- {name: b}\n- {nam: c}\n")
    assert [line.partition(": ")[0] for line in lines] == [
        "t.yaml:4:3", "t.yaml:5:3", "t.yaml:5:9", "t.yaml:3",
    ]  # fmt: skip
    assert lines[-1] == "t.yaml:3: cases: the name 'a' is taken by the case in line 2"


class TestMatrix:
    def test_lists_by_name_combine_and_rows_stand_for_themselves(self) -> None:
        suite = read("""
            cases:
              - name: combined
                matrix: {a: [1, 2], b: [x]}
                run: echo {{a}} {{ b }}
              - name: row {{n}}
                matrix: [{n: 5, code: 0}, {n: -1, code: 2}]
                script: s.py
                args: ["{{n}}"]
                expect: {exit: "{{code}}", json: {equals: "{{n}}"}}
            """)
        cases = [placed.case for placed in suite.cases]
        assert [case.name for case in cases] == [
            "combined [a=1, b=x]",
            "combined [a=2, b=x]",
            "row 5",
            "row -1",
        ]
        assert [case.run for case in cases[:2]] == ["echo 1 x", "echo 2 x"]
        assert [(case.args, case.expect.exit) for case in cases[2:]] == [(("5",), 0), (("-1",), 2)]
        assert cases[2].expect.json_value is not None
        assert cases[2].expect.json_value.equals == 5

    def test_text_without_a_matrix_keeps_its_braces(self) -> None:
        (placed,) = read("cases:\n- {name: a, run: 'echo {{x}}'}").cases
        assert placed.case.run == "echo {{x}}"

    def test_a_few_lines_do_not_become_gigabytes(self) -> None:
        text = "{{n}}" * 10_000
        (complaint,) = told(f'cases:\n- {{name: a, matrix: {{n: ["{"x" * 10_000}"]}}, run: "{text}"}}')
        assert complaint.endswith("cases.0.matrix: fills in 100,000,000 characters, more than 8,388,608")

    def test_rows_have_an_end(self) -> None:
        values = ", ".join(map(str, range(40)))
        text = f"cases:\n- {{name: a, run: '{{{{x}}}}{{{{y}}}}', matrix: {{x: [{values}], y: [{values}]}}}}"
        assert told(text) == [
            "t.yaml:2:1606: cases.0.matrix: has 1,600 rows, and 1 to 1,000 can be run"
        ] or told(text)[0].endswith("has 1,600 rows, and 1 to 1,000 can be run")

    def test_cases_have_an_end(self) -> None:
        tens = ", ".join(map(str, range(10)))
        case = f"matrix: {{x: [{tens}], y: [{tens}], z: [{tens}]}}, run: '{{{{x}}}}{{{{y}}}}{{{{z}}}}'"
        text = "cases:\n" + "".join(f"- {{name: n{n}, {case}}}\n" for n in range(MAX_CASES // 1000 + 1))
        assert told(text)[0].endswith("cases: are more than 10,000")


class TestText:
    @given(st.text())
    def test_whatever_is_read_is_a_value_or_a_complaint(self, text: str) -> None:
        with suppress(TreeError):
            typed(read_tree(text).value)

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text("ab1 :-#"),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3)
            ),
            max_leaves=8,
        )
    )
    def test_what_is_written_as_json_is_read_as_that(self, value: object) -> None:
        assert typed(read_tree(json.dumps(value)).value) == value

    @pytest.mark.parametrize("text", ["[" * 45 + "]" * 45, "[" * 3000, "a: " + "{a: " * 50 + "}" * 50])
    def test_what_is_nested_too_deep_is_refused(self, text: str) -> None:
        with pytest.raises(TreeError, match="nest"):
            read_tree(text)

    def test_what_is_too_long_is_refused(self) -> None:
        with pytest.raises(TreeError, match="is longer than 1,048,576 characters"):
            read_tree("a" * (MAX_CHARACTERS + 1))


class TestSchema:
    def test_it_is_the_file_that_editors_are_given(self) -> None:
        assert json.loads((ROOT / "config/ci/cases.schema.json").read_text()) == suite_schema()

    def test_it_is_a_schema(self) -> None:
        jsonschema.Draft202012Validator.check_schema(suite_schema())

    @pytest.mark.parametrize("file", SAMPLES, ids=lambda path: f"{path.parents[1].name}/{path.name}")
    def test_it_admits_the_files_of_the_samples(self, file: Path) -> None:
        jsonschema.validate(yaml.safe_load(file.read_text(encoding="utf-8")), suite_schema())

    def test_it_admits_what_a_new_skill_has_and_no_other_keys(self) -> None:
        value = yaml.safe_load(scaffold("sums").files["tests/basic.yaml"])
        jsonschema.validate(value, suite_schema())
        value["cases"][0]["expcet"] = {}
        with pytest.raises(jsonschema.ValidationError, match="expcet"):
            jsonschema.validate(value, suite_schema())


@pytest.mark.parametrize("language", ["python", "node", "bash"])
def test_the_cases_of_a_new_skill_can_be_read(language: str) -> None:
    text = scaffold("sums", language=language).files["tests/basic.yaml"]  # type: ignore[arg-type]
    assert [placed.case.name for placed in read_suite(text, "basic.yaml").cases] == ["greets by name"]


@pytest.mark.parametrize("file", SAMPLES, ids=lambda path: f"{path.parents[1].name}/{path.name}")
def test_the_cases_of_the_samples_can_be_read(file: Path) -> None:
    assert read_suite(file.read_text(encoding="utf-8"), file.name).cases
