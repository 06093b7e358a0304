"""How the tools are used, in as few words as do: this stands in every prompt. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_skills.toolsets.workspace_tools import names

if TYPE_CHECKING:
    from collections.abc import Collection

_CATALOG = ("Each line above says what a skill is for, no more.",)

_LOADING = (
    """\
When a request fits a skill, call skill_load with its name first, and go by the instructions that you then have.""",
)

_DOCS = (
    """\
Load documents, which skill_list_docs names, only when the instructions send you there.""",
)

_FLEETING = ("What you loaded is there until the user's next message; load it again after that.",)

_RUNNING = (
    """\
skill_run runs commands in a sandbox: no network, nothing can be installed, and it starts in the skill's own folder, \
which is read-only. What the instructions do not say of a program's arguments, ask the program (--help).""",
    """\
Write results to out/ (or $OUTPUT_DIR) and name them in output_files, such as out/*.csv; other files go to work/, a \
Python environment to $WORK_DIR/.venv. Use these variables rather than full paths. Short answers belong on stdout.""",
    """\
Files of the user are in work/inputs/. Bring others with inputs: an artifact, a file of the workspace or of another \
skill. Files stay in the workspace for later calls, and the ref of a file can be an input; do not run something again \
to see what you have.""",
    """\
Text of returned files is in the result: ask for omit_inline_content where it is long and nobody reads it. Binary \
files come without content. Save what the user is to keep: save_as_artifacts, or outputs with save.""",
    "Read warnings and stderr before you try again, and believe what happened over what a document says.",
)

_PROGRAMS = (
    """\
skill_exec is for programs that ask questions or need a terminal. Answer with skill_write_stdin, look with \
skill_poll_session, and end what is left with skill_kill_session: until then no other command may run.""",
)

_SHELL = (
    """\
workspace_exec runs any shell command in the same workspace, from its root: to look around, move files, or run what \
you wrote. Loaded skills are below skills/.""",
)

_BESIDE = (
    "Run with skill_run what a skill tells you to run: only there are its variables, and what it was granted.",
)

_SAVING = (
    "workspace_save_artifact keeps one file of work/, out/ or runs/ for the user after the workspace has ended.",
)


def guidance(chosen: Collection[str], *, lasts: bool) -> str:
    """Returns what a model is told of the tools that are offered. `lasts` is whether loads outlast a turn."""
    parts = (
        (_CATALOG, True),
        (_LOADING, names.SKILL_LOAD in chosen),
        (_DOCS, names.SKILL_LIST_DOCS in chosen),
        (_FLEETING, names.SKILL_LOAD in chosen and not lasts),
        (_RUNNING, names.SKILL_RUN in chosen),
        (_PROGRAMS, names.SKILL_EXEC in chosen),
        (_SHELL, names.WORKSPACE_EXEC in chosen),
        (_BESIDE, {names.SKILL_RUN, names.WORKSPACE_EXEC} <= set(chosen)),
        (_SAVING, names.WORKSPACE_SAVE_ARTIFACT in chosen),
    )
    lines = [line for said, holds in parts if holds for line in said]
    return "\n".join(["Using skills:", *(f"- {line}" for line in lines)])
