"""Where values come from: each source as a flat mapping of dotted names, with the place for messages."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, cast

import platformdirs
import yaml

from sandbox_skills.controller.client_options import OPENROUTER
from sandbox_skills.errors import SettingsError
from sandbox_skills.settings.environment import current_directory, read_text
from sandbox_skills.settings.model import APP, TREES, Settings
from sandbox_skills.settings.paths import located

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

PREFIX = "SANDBOX_SKILLS_"
CONFIG_VARIABLE = "SANDBOX_SKILLS_CONFIG"

EXTRA_ROOT_VARIABLE = "SKILLS_ROOT"
"""The name other skill hosts use: adds one root to those of the environment or the file."""

OPENROUTER_KEY_VARIABLE = "OPENROUTER_API_KEY"
"""The name other programs use for OpenRouter's key."""

MAX_DEPTH = 10
"""Settings are three deep, a tenant's list of scripts in a policy eight.

PyYAML's time grows with the square of the depth, 4 s for 5,000.
"""


@dataclass(frozen=True, slots=True)
class Given:
    """A value as its source has it; `origin` is for messages, `base` is what a relative path starts from.

    `places` says for what is inside a value where that stands, by the names that lead to it.
    """

    value: object
    origin: str
    base: Path
    places: Mapping[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    def place(self, path: tuple[str, ...]) -> str:
        """Returns where something inside the value stands, or what is nearest around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, self.origin)


def user_config_file() -> Path:
    """Returns where the user's own settings file is looked for; it need not exist."""
    return platformdirs.user_config_path(APP) / "settings.yaml"


def environment_layer(variables: Mapping[str, str]) -> dict[str, Given]:
    """Returns what `SANDBOX_SKILLS_*` variables give; `__` stands for the dot, an empty one is not given."""
    layer: dict[str, Given] = {}
    for variable, text in variables.items():
        if variable.startswith(PREFIX) and variable != CONFIG_VARIABLE and text:
            name = variable.removeprefix(PREFIX).lower().replace("__", ".")
            value = text.split(os.pathsep) if name == "skills.roots" else text
            layer[name] = Given(value, variable, current_directory())
    return layer


def with_extra_root(given: Given | None, root: str) -> Given:
    """Returns the roots with one more at the end, a relative one from where the user stands."""
    extra = str(located(root, current_directory(), EXTRA_ROOT_VARIABLE))
    if given is None:
        return Given([extra], EXTRA_ROOT_VARIABLE, current_directory())
    value: object = given.value
    return replace(given, value=[*cast("list[object]", value), extra]) if isinstance(value, list) else given


def openrouter_key(given: Mapping[str, Given], variables: Mapping[str, str]) -> Given | None:
    """Returns the key that other programs use too, where none is given and it would go to nobody but OpenRouter."""
    key = variables.get(OPENROUTER_KEY_VARIABLE)
    address = given["model.base_url"].value if "model.base_url" in given else OPENROUTER
    if not key or "model.api_key" in given or address != OPENROUTER:
        return None
    return Given(key, OPENROUTER_KEY_VARIABLE, current_directory())


def file_layer(config: Path | None, variables: Mapping[str, str]) -> dict[str, Given]:
    """Returns what the configuration file gives; only the user's default file may be absent.

    Raises SettingsError for a file that cannot be read or is not a YAML mapping.
    """
    named = config or variables.get(CONFIG_VARIABLE)
    origin = "--config" if config else CONFIG_VARIABLE
    path = located(named, current_directory(), origin) if named else user_config_file()
    try:
        text = read_text(path)
    except (FileNotFoundError, NotADirectoryError) as error:
        if not named:
            return {}
        raise SettingsError(f"{path}: there is no such file") from error
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    return _layer(text, path)


def policy_layer(policy: Given) -> dict[str, Given]:
    """Returns what the policy's own file gives: settings below `policy`. Raises SettingsError."""
    path = located(str(policy.value), policy.base, policy.origin)
    try:
        text = read_text(path)
    except (OSError, ValueError) as error:
        raise SettingsError(f"{policy.origin}: the policy {path} cannot be read: {error}") from error
    return _layer(text, path, "policy.")


def _layer(text: str, path: Path, prefix: str = "") -> dict[str, Given]:
    layer: dict[str, Given] = {}
    for name, given in _entries(_composed(text, path), path, prefix):
        if name in layer:
            raise SettingsError(f"{given.origin}: {name} is given twice")
        layer[name] = given
    return layer


def _composed(text: str, path: Path) -> yaml.Node | None:
    try:
        _refuse_tricks(text, path)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: not YAML: {error}") from error


def _refuse_tricks(text: str, path: Path) -> None:
    """Refuses what no setting needs and what has no end: aliases, which may contain themselves, and depth."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent) or depth > MAX_DEPTH:
            line = event.start_mark.line + 1 if event.start_mark else 1
            fault = "nested too deep" if depth > MAX_DEPTH else "aliases are not supported"
            raise SettingsError(f"{path}:{line}: {fault}")


def _entries(node: yaml.Node | None, path: Path, prefix: str = "") -> Iterator[tuple[str, Given]]:
    """Yields the values below a mapping. Scalars stay text: what they mean is the model's business."""
    if node is None or _is_null(node):
        return
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(
            f"{path}:{node.start_mark.line + 1}: settings must be a mapping of names to values"
        )
    for key, value in node.value:
        origin = f"{path}:{key.start_mark.line + 1}"
        if not isinstance(key, yaml.ScalarNode):
            raise SettingsError(f"{origin}: the name of a setting must be plain text")
        name = prefix + key.value
        if name in TREES and not _is_null(value):
            places: dict[tuple[str, ...], str] = {}
            yield name, Given(_tree(value, path, (), places), origin, path.parent, places)
        elif _has_entries(value) or (_is_empty(value) and name in Settings.sections()):
            yield from _entries(value, path, f"{name}.")
        else:
            yield name, Given(_plain(value), origin, path.parent)


def _tree(node: yaml.Node, path: Path, steps: tuple[str, ...], places: dict[tuple[str, ...], str]) -> object:
    """Returns a mapping with whatever names, and notes where each part of it stands."""
    if isinstance(node, yaml.SequenceNode):
        return [
            _tree(item, path, _noted(item, path, (*steps, str(number)), places), places)
            for number, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.MappingNode):
        return _plain(node)
    tree: dict[str, object] = {}
    for key, value in node.value:
        inner = (*steps, str(key.value))
        if not isinstance(key, yaml.ScalarNode) or inner[-1] in tree:
            fault = "is given twice" if isinstance(key, yaml.ScalarNode) else "must be plain text"
            raise SettingsError(f"{path}:{key.start_mark.line + 1}: the name {'.'.join(inner)[:80]} {fault}")
        tree[inner[-1]] = _tree(value, path, _noted(key, path, inner, places), places)
    return tree


def _noted(
    node: yaml.Node, path: Path, steps: tuple[str, ...], places: dict[tuple[str, ...], str]
) -> tuple[str, ...]:
    places[steps] = f"{path}:{node.start_mark.line + 1}"
    return steps


def _has_entries(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.value)


def _is_empty(node: yaml.Node) -> bool:
    return _is_null(node) or (isinstance(node, yaml.MappingNode) and not node.value)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _plain(node: yaml.Node) -> object:
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item) for item in node.value]
    return None if _is_null(node) else node.value
