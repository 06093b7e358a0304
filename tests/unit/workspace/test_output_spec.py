"""Output requests: both styles, one plan; and the rules for what was collected.

A number in a test's name is that of the behaviour in the list of the skill_run reference.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sandbox_skills.spec import KIB, MIB, CollectLimits, Exited, FoundFile, Signalled, Stopped
from sandbox_skills.workspace.layout import WORKSPACE_VARIABLES
from sandbox_skills.workspace.output_rules import (
    MAX_PRIMARY,
    primary_output,
    without_empty,
    without_truncated,
)
from sandbox_skills.workspace.output_spec import (
    UNASKED_FILES,
    UNASKED_PATTERNS,
    OutputRequest,
    OutputSpec,
    plan_outputs,
)


def spec(**fields: Any) -> OutputSpec:  # noqa: ANN401  # a model writes these
    return OutputSpec.model_validate(fields)


def found(path: str, size: int = 1, *, truncated: bool = False) -> FoundFile:
    return FoundFile(path, size, 0o644, truncated=truncated)


# --- The manifest


def test_05_17_snake_case_limits_are_honoured() -> None:
    limits = spec(max_files=3, max_file_bytes=4, max_total_bytes=5).limits(CollectLimits())
    assert limits == CollectLimits(files=3, file_bytes=4, total_bytes=5)


def test_05_17_go_style_keys_are_honoured() -> None:
    outputs = spec(
        Globs=["out/*"],
        Inline=True,
        Save=True,
        NameTemplate="p/",
        MaxFiles=3,
        MaxFileBytes=4,
        MaxTotalBytes=5,
    )
    assert outputs == OutputSpec(
        globs=("out/*",),
        inline=True,
        save=True,
        name_template="p/",
        max_files=3,
        max_file_bytes=4,
        max_total_bytes=5,
    )


@pytest.mark.parametrize("keys", [("max_files", "MaxFiles"), ("MaxFiles", "max_files")])
def test_05_17_snake_case_beats_go_style(keys: tuple[str, str]) -> None:
    values = {"max_files": 1, "MaxFiles": 9}
    assert spec(**{key: values[key] for key in keys}).max_files == 1


def test_a_null_in_snake_case_leaves_what_go_style_says() -> None:
    assert spec(max_files=None, MaxFiles=9).max_files == 9


@pytest.mark.parametrize("value", [0, -1, None])
def test_a_limit_that_is_not_positive_is_the_default(value: int | None) -> None:
    outputs = spec(max_files=value, max_file_bytes=value, max_total_bytes=value)
    assert outputs.limits(CollectLimits()) == CollectLimits(100, 4 * MIB, 64 * MIB)


def test_05_21_a_limit_above_the_ceiling_is_the_ceiling() -> None:
    assert spec(max_file_bytes=40 * MIB).limits(CollectLimits()).file_bytes == 4 * MIB


@given(st.integers(-10, 10**12), st.integers(-10, 10**12), st.integers(-10, 10**12))
def test_no_manifest_passes_the_ceiling(files: int, file_bytes: int, total_bytes: int) -> None:
    ceiling = CollectLimits(7, 1000, 2000)
    limits = spec(max_files=files, max_file_bytes=file_bytes, max_total_bytes=total_bytes).limits(ceiling)
    assert 0 < limits.files <= 7
    assert 0 < limits.file_bytes <= 1000
    assert 0 < limits.total_bytes <= 2000


@pytest.mark.parametrize(
    "fields",
    [
        {"glob": ["out/*"]},
        {"globs": "out/*"},
        {"globs": [1]},
        {"max_files": "many"},
        {"max_files": 1.5},
        {"save": "perhaps"},
        {"": 1},
    ],
)
def test_a_manifest_with_what_is_none_of_its_keys_or_values_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(**fields)


@pytest.mark.parametrize("value", [[], "out/*", 1, None])
def test_a_manifest_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(ValidationError):
        OutputSpec.model_validate(value)


# --- The plan


def test_output_files_are_collected_listed_and_inlined() -> None:
    plan = plan_outputs(OutputRequest(output_files=["out/*.txt"]))
    assert plan.patterns == ("out/*.txt",)
    assert plan.limits == CollectLimits()
    assert (plan.listed, plan.inline, plan.save, plan.warnings) == (True, True, False, ())


def test_output_files_are_saved_under_the_prefix_when_asked() -> None:
    plan = plan_outputs(
        OutputRequest(output_files=["out/*"], save_as_artifacts=True, artifact_prefix="user:2026-")
    )
    assert plan.save
    assert plan.artifact_name(PurePosixPath("out/x")) == "user:2026-out/x"


def test_outputs_are_ignored_beside_output_files_and_that_is_said() -> None:
    plan = plan_outputs(OutputRequest(output_files=["a"], outputs=spec(globs=["b"], save=True, max_files=1)))
    assert plan.patterns == ("a",)
    assert not plan.save
    assert plan.limits.files == 100
    assert plan.warnings == ("outputs is ignored: output_files is given",)


@pytest.mark.parametrize("output_files", [[], [""], [" ", "\t"]])
def test_blank_output_files_do_not_hide_outputs(output_files: list[str]) -> None:
    plan = plan_outputs(OutputRequest(output_files=output_files, outputs=spec(globs=["b"])))
    assert plan.patterns == ("b",)
    assert plan.warnings == ()


def test_05_18_a_name_template_stands_before_the_path() -> None:
    plan = plan_outputs(OutputRequest(outputs=spec(globs=["out/x"], save=True, name_template="pref/")))
    assert plan.save
    assert plan.artifact_name(PurePosixPath("out/x")) == "pref/out/x"


def test_05_20_the_limits_of_outputs_are_those_of_the_collection() -> None:
    plan = plan_outputs(OutputRequest(outputs=spec(globs=["out/*"], max_files=1)))
    assert plan.limits == CollectLimits(files=1)


def test_outputs_are_listed_even_when_neither_inlined_nor_saved() -> None:
    plan = plan_outputs(OutputRequest(outputs=spec(globs=["out/*"])))
    assert (plan.listed, plan.inline, plan.save) == (True, False, False)


@pytest.mark.parametrize("omitted", [True, False])
def test_inline_content_is_omitted_in_every_style(*, omitted: bool) -> None:
    for request in (
        OutputRequest(output_files=["a"], omit_inline=omitted),
        OutputRequest(outputs=spec(globs=["a"], inline=True), omit_inline=omitted),
        OutputRequest(omit_inline=omitted),
    ):
        assert plan_outputs(request).inline != omitted


def test_saving_and_naming_of_the_other_style_is_ignored_and_said() -> None:
    request = OutputRequest(outputs=spec(globs=["a"]), save_as_artifacts=True, artifact_prefix="p")
    plan = plan_outputs(request)
    assert not plan.save
    assert plan.name_prefix == ""
    assert [warning.split()[0] for warning in plan.warnings] == ["save_as_artifacts", "artifact_prefix"]


def test_05_11_without_a_request_out_is_looked_at_and_not_listed() -> None:
    plan = plan_outputs(OutputRequest())
    assert plan.patterns == UNASKED_PATTERNS
    assert plan.limits.files == UNASKED_FILES
    assert (plan.listed, plan.inline, plan.save, plan.warnings) == (False, True, False, ())


def test_saving_without_output_files_is_said_to_do_nothing() -> None:
    plan = plan_outputs(OutputRequest(save_as_artifacts=True))
    assert not plan.save
    assert plan.warnings == ("save_as_artifacts is ignored: output_files is empty",)


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (OutputRequest(output_files=["."]), "output_files"),
        (OutputRequest(outputs=spec(globs=["."])), "outputs.globs"),
        (OutputRequest(outputs=spec()), "outputs.globs"),
    ],
)
def test_05_22_a_request_that_names_no_file_collects_none_and_says_so(
    request_: OutputRequest, field: str
) -> None:
    plan = plan_outputs(request_)
    assert plan.patterns == ()
    assert plan.listed
    assert plan.warnings == (f"{field} names no file",)


@pytest.mark.parametrize("text", ["../x", "out/../../x", "/etc/passwd", "$OUTPUT_DIR/../../x"])
def test_05_23_a_pattern_that_leaves_the_workspace_names_no_file_in_both_styles(text: str) -> None:
    texts = [text, "out/*"]
    for request in (OutputRequest(output_files=texts), OutputRequest(outputs=spec(globs=texts))):
        plan = plan_outputs(request)
        assert plan.patterns == ("out/*",)
        (warning,) = plan.warnings
        assert warning.endswith(": no file is taken from there")
    alone = plan_outputs(OutputRequest(output_files=[text]))
    assert (alone.patterns, len(alone.warnings)) == ((), 2)


def test_05_25_patterns_are_normalised_in_both_styles() -> None:
    texts = ["$OUTPUT_DIR/a.txt", "${WORK_DIR}/x/**", " ", "$WORKSPACE_DIR/out/b", "$UNKNOWN/d", "out/a.txt"]
    expected = ("out/a.txt", "work/x/**", "out/b", "$UNKNOWN/d")
    assert plan_outputs(OutputRequest(output_files=texts)).patterns == expected
    assert plan_outputs(OutputRequest(outputs=spec(globs=texts))).patterns == expected


def test_a_run_directory_is_known_where_the_caller_adds_it() -> None:
    variables = {**WORKSPACE_VARIABLES, "RUN_DIR": "/workspace/runs/r1"}
    plan = plan_outputs(OutputRequest(output_files=["$RUN_DIR/*.log"]), variables=variables)
    assert plan.patterns == ("runs/r1/*.log",)


def test_every_style_stays_below_the_ceiling() -> None:
    ceiling = CollectLimits(files=2, file_bytes=3, total_bytes=4)
    for request in (
        OutputRequest(output_files=["a"]),
        OutputRequest(outputs=spec(globs=["a"], max_files=9)),
        OutputRequest(),
    ):
        assert plan_outputs(request, ceiling=ceiling).limits == ceiling


# --- What was collected


@pytest.mark.parametrize("ending", [Exited(1), Signalled(9), Stopped("wall_time")])
def test_05_05_empty_files_of_a_failed_run_are_left_out_and_said(
    ending: Exited | Signalled | Stopped,
) -> None:
    kept, warnings = without_empty([found("out/a.txt", 0), found("out/b.txt", 3)], ending)
    assert kept == (found("out/b.txt", 3),)
    assert warnings == ("left out, because the run failed and they are empty: 'out/a.txt'",)


def test_05_06_files_with_content_of_a_failed_run_are_kept() -> None:
    assert without_empty([found("out/a.txt", 3)], Exited(2)) == ((found("out/a.txt", 3),), ())


def test_empty_files_of_a_run_that_succeeded_are_kept() -> None:
    assert without_empty([found("out/a.txt", 0)], Exited(0)) == ((found("out/a.txt", 0),), ())


def test_05_19_a_file_too_large_to_save_is_not_saved_and_said() -> None:
    whole, warnings = without_truncated([found("out/a", 9 * MIB, truncated=True), found("out/b")])
    assert whole == (found("out/b"),)
    assert warnings == (f"not saved, because they are larger than the limit: 'out/a' ({9 * MIB} bytes)",)


def test_a_warning_names_some_files_and_counts_the_others() -> None:
    files = [found(f"out/{number}", 0) for number in range(100)]
    (warning,) = without_empty(files, Exited(1))[1]
    assert warning.endswith("'out/9' and 90 more")


def primary(**texts: str | None) -> str:
    return str(primary_output((PurePosixPath(f"out/{name}.txt"), text) for name, text in texts.items()))


def test_05_14_the_first_text_by_name_is_the_primary_output() -> None:
    assert primary(b="B", a="A") == "out/a.txt"


def test_05_14_blank_binary_and_long_files_are_never_primary() -> None:
    assert primary(a=" \n", b=None, c="x" * (MAX_PRIMARY + 1), d="D", e="E") == "out/d.txt"
    assert primary(a=" \n", b=None, c="é" * (MAX_PRIMARY // 2 + 1)) == "None"
    assert primary() == "None"


def test_a_text_of_just_the_largest_size_may_be_primary() -> None:
    assert MAX_PRIMARY == 32 * KIB
    assert primary(a="é" * (MAX_PRIMARY // 2)) == "out/a.txt"


def test_names_are_compared_as_text_and_not_by_directory() -> None:
    paths = [PurePosixPath("out/a/x"), PurePosixPath("out/a-b")]
    assert primary_output((path, "x") for path in paths) == PurePosixPath("out/a-b")
