"""The toolset `resources`: allowlist, hints, pages, and denials that a model can recover from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import pytest

from sandbox_skills.catalog import Catalog, SkillRoot
from sandbox_skills.errors import SettingsError
from sandbox_skills.toolsets.base import Conversation, ToolCall, ToolResult
from sandbox_skills.toolsets.offered import OfferedSkills
from sandbox_skills.toolsets.resources_tools import ResourcesToolset
from sandbox_skills.toolsets.toolbox import Toolbox

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "pdf"
    (folder / "scripts").mkdir(parents=True)
    (folder / "references").mkdir()
    (folder / "SKILL.md").write_text(
        "---\nname: pdf\ndescription: Reads PDFs.\n---\nRead it.\n", encoding="utf-8"
    )
    (folder / "scripts/extract.py").write_text("print()\n", encoding="utf-8")
    (folder / "references/api.md").write_text("é" * 50, encoding="utf-8")
    (folder / "README.md").write_text("top", encoding="utf-8")
    (folder / "scripts/blob.bin").write_bytes(b"\xff\xfe\x00")
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "SKILL.md").write_text("---\nname: plain\ndescription: Nothing.\n---\nBody.\n", encoding="utf-8")
    return tmp_path


def answer(
    root: Path,
    tool: str,
    arguments: object,
    *,
    allowed: frozenset[str] | None = None,
    hint_resources: bool = True,
    max_bytes: int = 65_536,
) -> ToolResult:
    skills = OfferedSkills(Catalog([SkillRoot(str(root))]), include=allowed)
    toolset = ResourcesToolset(skills, hint_resources=hint_resources, max_bytes=max_bytes)
    box = Toolbox([toolset])
    return anyio.run(box.call, ToolCall(tool, arguments), Conversation("c", tenant="t"))


class TestLoad:
    def test_instructions_end_with_a_pointer_to_the_files(self, root: Path) -> None:
        text = answer(root, "skill_load", {"name": "pdf"}).text
        assert text.startswith("Read it.")
        assert "2 in scripts/, 1 in references/" in text
        assert "skill_resource" in text

    def test_without_hints_they_are_the_body_alone(self, root: Path) -> None:
        assert answer(root, "skill_load", {"name": "pdf"}, hint_resources=False).text == "Read it."

    def test_a_skill_without_files_has_no_pointer(self, root: Path) -> None:
        assert answer(root, "skill_load", {"name": "plain"}).text == "Body."

    @pytest.mark.parametrize("tool", ["skill_load", "skill_resource"])
    def test_a_skill_that_is_not_allowed_is_denied_with_those_that_are(self, root: Path, tool: str) -> None:
        result = answer(root, tool, {"name": "pdf"}, allowed=frozenset({"plain"}))
        assert result.text == "Denied: the skill 'pdf' is not available to this agent. The skills are: plain."
        assert (result.status, result.is_error) == ("rejected", True)


class TestResource:
    def test_without_a_resource_the_files_are_listed(self, root: Path) -> None:
        assert answer(root, "skill_resource", {"name": "pdf"}).content == {
            "scripts": ["blob.bin", "extract.py"],
            "references": ["api.md"],
            "assets": [],
            "other": ["README.md"],
        }

    def test_a_file_is_read(self, root: Path) -> None:
        result = answer(root, "skill_resource", {"name": "pdf", "resource": "scripts/extract.py"})
        assert result.text == "print()\n"

    def test_a_larger_one_is_cut_at_a_character_and_says_so(self, root: Path) -> None:
        result = answer(root, "skill_resource", {"name": "pdf", "resource": "references/api.md"}, max_bytes=9)
        assert result.text == "éééé\n[truncated: these are the first 8 of 100 bytes of references/api.md]"

    def test_what_is_no_text_is_told(self, root: Path) -> None:
        result = answer(root, "skill_resource", {"name": "pdf", "resource": "scripts/blob.bin"})
        assert result.text.startswith("[scripts/blob.bin is no text: 3 bytes.")

    @pytest.mark.parametrize(
        "path", ["../plain/SKILL.md", "/etc/passwd", "a/../../x", "missing", "scripts", "\0"]
    )
    def test_a_path_that_leads_out_or_nowhere_is_denied(self, root: Path, path: str) -> None:
        result = answer(root, "skill_resource", {"name": "pdf", "resource": path})
        assert result.text.startswith("Denied: ")
        assert result.code in {"path_escape", "input_invalid"}


def test_the_allowlist_offers_the_tools_by_itself(root: Path) -> None:
    skills = OfferedSkills(Catalog([SkillRoot(str(root))]), include=frozenset({"pdf"}))
    toolset = ResourcesToolset(skills)
    assert [tool.name for tool in toolset.tools()] == ["skill_load", "skill_resource"]
    prompt = toolset.prompt(Conversation("c", tenant="t"))
    assert prompt == "## Available skills\n\n- **pdf**: Reads PDFs."


def test_without_an_allowed_skill_there_is_neither_tool_nor_block(root: Path) -> None:
    toolset = ResourcesToolset(OfferedSkills(Catalog([SkillRoot(str(root))]), include=frozenset()))
    assert toolset.tools() == ()
    assert not toolset.prompt(Conversation("c", tenant="t"))


def test_chosen_twice_it_is_a_settings_error(root: Path) -> None:
    toolset = ResourcesToolset(OfferedSkills(Catalog([SkillRoot(str(root))])))
    with pytest.raises(SettingsError, match="resources is chosen twice"):
        Toolbox([toolset, toolset])
