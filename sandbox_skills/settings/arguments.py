"""The form of all settings, of pydantic-settings: it reads nothing but its arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_settings import BaseSettings, SettingsConfigDict

from sandbox_skills.checked.form import Form

if TYPE_CHECKING:
    from pydantic_settings import PydanticBaseSettingsSource


class Arguments(Form, BaseSettings):
    """Settings as arguments."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves only the arguments: the library's own sources name neither line nor near match."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)
