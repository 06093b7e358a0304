"""Sources in their order of precedence → `Settings`, or every fault with its place."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sandbox_skills.errors import SettingsError
from sandbox_skills.settings.environment import current_directory, process_environment
from sandbox_skills.settings.model import (
    COMMAND_LINE_ONLY,
    PATHS,
    SECRETS,
    Settings,
    SkillsSettings,
    setting_names,
)
from sandbox_skills.settings.paths import is_absolute_path, located
from sandbox_skills.settings.sources import (
    EXTRA_ROOT_VARIABLE,
    PREFIX,
    Given,
    environment_layer,
    file_layer,
    openrouter_key,
    policy_layer,
    with_extra_root,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pydantic import ValidationError

KNOWN = tuple(setting_names())

COMMAND_LINE = "command line"
"""The origin of what `overrides` give."""


def load_settings(
    overrides: Mapping[str, object] | None = None,
    *,
    config: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Returns the settings in force; raises SettingsError that tells every fault with its file and line.

    `overrides` maps dotted names (`run.wall_seconds`) to values of the command line; None is not given. An
    empty variable is not given either. `environ` None is the process's own.
    """
    variables = process_environment(environ)
    given = file_layer(config, variables) | environment_layer(variables)
    if root := variables.get(EXTRA_ROOT_VARIABLE):
        given["skills.roots"] = with_extra_root(given.get("skills.roots"), root)
    if (key := openrouter_key(given, variables)) is not None:
        given["model.api_key"] = key
    here = current_directory()
    given |= {n: Given(v, COMMAND_LINE, here) for n, v in (overrides or {}).items() if v is not None}
    given |= _policy(given)
    if unknown := [_unknown(name, item.origin) for name, item in given.items() if not _may_say(name, item)]:
        raise SettingsError("\n".join(unknown))
    _check_local(given)
    if (settings := _of_folders(given)) is not None:
        return settings
    from pydantic import ValidationError  # noqa: PLC0415  # slow to import, and most commands have no use for it

    try:
        return Settings.of(_nested(given))
    except ValidationError as error:
        raise SettingsError("\n".join(_faults(error, given))) from error


def _may_say(name: str, given: Given) -> bool:
    return name in KNOWN or (name in COMMAND_LINE_ONLY and given.origin == COMMAND_LINE)


def _check_local(given: Mapping[str, Given]) -> None:
    """Raises SettingsError where anything but the command itself asks for the engine that isolates nothing."""
    engine = given.get("engine")
    if engine is None or engine.value != "local":
        return
    hint = "--engine local --accept-no-isolation"
    if engine.origin != COMMAND_LINE:
        raise SettingsError(
            f"{engine.origin}: engine local can only be asked for on the command line", hint=hint
        )
    if "accept_no_isolation" not in given:
        raise SettingsError("engine local isolates nothing: a skill may do all that you may do", hint=hint)


def _policy(given: Mapping[str, Given]) -> dict[str, Given]:
    """Returns what the policy's own file gives, where one is named."""
    named = given.get("policy.file")
    if named is None or not named.value:
        return {}
    layer = policy_layer(named)
    for name, item in layer.items():
        if other := given.get(name):
            raise SettingsError(f"{item.origin}: {name} is given twice: {other.origin} has it, too")
    return layer


def _of_folders(given: Mapping[str, Given]) -> Settings | None:
    """Returns the settings where only folders are given, for data or of skills; None leaves it to pydantic."""
    if given.keys() - {"data_dir", "skills.roots"}:
        return None
    values = _nested(given)
    if "skills" in values:
        roots = values["skills"]["roots"]
        if not isinstance(roots, list) or not all(map(is_absolute_path, cast("list[object]", roots))):
            return None
        values["skills"] = SkillsSettings.taken({"roots": tuple(cast("list[Path]", roots))})
    return Settings.taken(values) if is_absolute_path(values.get("data_dir", Path("/"))) else None


def _nested(given: Mapping[str, Given]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, item in given.items():
        *section, leaf = name.split(".")
        place = values.setdefault(section[0], {}) if section else values
        place[leaf] = _rooted(item) if name in PATHS else item.value
    return values


def _rooted(given: Given) -> object:
    """Returns a path, or several, made absolute: from the file's folder, else from where the user stands."""
    value = given.value
    if isinstance(value, (list, tuple)):
        return [_rooted(replace(given, value=item)) for item in cast("Sequence[object]", value)]
    if not isinstance(value, (str, Path)) or not str(value):
        return value
    return located(value, given.base, given.origin)


def _unknown(name: str, origin: str) -> str:
    if name in Settings.sections():
        return f"{origin}: {name} is a section of settings, not a value"
    near = get_close_matches(name, KNOWN, n=3)
    if origin.startswith(PREFIX):
        near = [PREFIX + n.upper().replace(".", "__") for n in near]
    return f"{origin}: unknown setting {name}" + (f"; did you mean {', '.join(near)}?" if near else "")


def _faults(error: ValidationError, given: Mapping[str, Given]) -> Iterator[str]:
    for fault in error.errors():
        name = ".".join(str(part) for part in fault["loc"][:2])
        # A rule over a whole section has the section's name: any value given there leads to the place.
        origin = next(
            (g.origin for n, g in given.items() if n == name or n.startswith(f"{name}.")), "default"
        )
        shown = f" (got {str(fault['input'])[:80]!r})" if name in given and name not in SECRETS else ""
        inside = tuple(map(str, fault["loc"][2:]))
        if inside and name in given and given[name].places:
            origin, name = given[name].place(inside), ".".join((name, *inside))
            shown = f" (got {str(fault['input'])[:80]!r})"
        told = "is not known here" if fault["type"] == "extra_forbidden" else fault["msg"]
        yield f"{origin}: {name}: {told}{shown}"
