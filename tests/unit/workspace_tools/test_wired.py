"""The workspace tools as settings make them, in a provider for a caller's own loop."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from sandbox_skills import create_skills_provider, load_settings
from sandbox_skills.errors import SettingsError
from sandbox_skills.spec import KIB, Limits
from sandbox_skills.toolsets.workspace_tools.names import ALL
from sandbox_skills.toolsets.workspace_tools.options import WorkspaceToolsOptions

if TYPE_CHECKING:
    from pathlib import Path

    from sandbox_skills.settings import Settings

pytestmark = pytest.mark.anyio


def settings_of(folder: Path, **given: Any) -> Settings:  # noqa: ANN401  # as settings
    chosen = {f"workspace_tools.{name}": value for name, value in given.items()}
    return load_settings({"data_dir": str(folder / "data"), "engine": "fake", **chosen}, environ={})


def test_the_settings_defaults_are_the_options(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert settings.workspace_tools.options(settings.run_limits()) == WorkspaceToolsOptions()


def test_every_setting_is_an_option(tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "profile": "knowledge_only",
        "allowed": ("skill_load",),
        "lifetime": "once",
        "place": "tool_result",
        "require_loaded": False,
        "max_loaded": 2,
        "overview_limit": 3,
        "guidance": "x",
        "output_bytes": 10,
        "artifact_bytes": 20,
    }
    settings = settings_of(tmp_path, **given, stream_bytes="1KiB")
    limits = Limits(stdout_bytes=KIB, stderr_bytes=KIB)
    assert settings.workspace_tools.options(Limits()) == WorkspaceToolsOptions(**given, limits=limits)
    assert set(asdict(settings.workspace_tools)) == {*given, "stream_bytes"}


async def test_a_provider_has_them_and_a_load_replies_with_the_instructions(
    tmp_path: Path, skills: Path
) -> None:
    made = create_skills_provider(skills, settings=settings_of(tmp_path), toolsets=("workspace",))
    async with made as provider:
        assert [tool["name"] for tool in provider.tools] == list(ALL)
        loaded = await provider.handle_tool_call("skill_load", {"skill": "weather"})
        assert loaded == "loaded: weather\n\n[Loaded] weather\n\nThe body of weather."
        told = await provider.handle_tool_call("workspace_exec", {"command": "true"})
        assert isinstance(told, dict)
        assert provider.system_prompt.startswith("Skills:\n- csv-tools: ")


async def test_both_toolsets_can_be_offered_at_once(tmp_path: Path, skills: Path) -> None:
    both = create_skills_provider(
        skills, settings=settings_of(tmp_path), toolsets=("openrouter", "workspace")
    )
    async with both as provider:
        assert [tool["name"] for tool in provider.tools] == ["load_skill", "use_skill", *ALL]


def test_a_toolset_that_is_none_is_refused_with_those_there_are(tmp_path: Path, skills: Path) -> None:
    with pytest.raises(SettingsError, match="no toolset is named 'x'") as caught:
        create_skills_provider(skills, settings=settings_of(tmp_path), toolsets=("x",))
    assert "workspace" in caught.value.hint
