"""Plain values that are checked when they are given."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError, asdict, fields, replace

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_settings import BaseSettings

from sandbox_skills.checked.value import Checked
from sandbox_skills.policy import Policy, SkillRule, TenantPolicy
from sandbox_skills.settings import Settings
from sandbox_skills.settings.model import McpSettings, PoolSettings, RunSettings
from sandbox_skills.settings.model_section import ModelSettings

SECRET = "sk-0123456789-abcdef"

WITHOUT_PYDANTIC = """
import sys
from sandbox_skills import Settings, load_settings
from sandbox_skills.policy import Policy, decide
assert load_settings(environ={}) == Settings()
assert decide(Settings().policy.rules(), tenant="t", skill="s").allowed
"""


def kinds(kind: type[Checked]) -> set[type[Checked]]:
    return {kind}.union(*map(kinds, kind.__subclasses__()))


def test_defaults_need_no_pydantic() -> None:
    code = f"{WITHOUT_PYDANTIC}\nprint(*(set(sys.modules) & {{'pydantic', 'pydantic_core', 'pydantic_settings'}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_settings_are_checked_by_the_library_for_them() -> None:
    assert issubclass(Settings.form_base(), BaseSettings)
    assert not issubclass(PoolSettings.form_base(), BaseSettings)


@pytest.mark.parametrize("kind", sorted(kinds(Checked) - {Checked}, key=str))
def test_every_value_is_one_that_its_annotation_admits(kind: type[Checked]) -> None:
    usual = kind()
    for one in fields(usual):
        made = kind(**{one.name: getattr(usual, one.name)})
        assert made == usual
        assert made.given == {one.name}
    assert hasattr(kind, "__dataclass_fields__")


def test_one_that_there_is_is_right_however_it_was_made() -> None:
    for made in (
        lambda: PoolSettings(size=-1),
        lambda: PoolSettings.of({"size": "x"}),
        lambda: PoolSettings().replaced(size=65),
        lambda: replace(PoolSettings(), size=65),
        lambda: RunSettings(wall_seconds=901),
        lambda: Settings(engine="local"),
        lambda: Settings.of({"pool": {"sizes": 1}}),
        lambda: Policy.of({"skills": {"s": {"commands": {"allow": ["bash"]}}}}),
        lambda: SkillRule.of({"digest": "x"}),
    ):
        with pytest.raises(ValidationError):
            made()


def test_a_fault_inside_keeps_its_place() -> None:
    with pytest.raises(ValidationError) as caught:
        TenantPolicy.of({"skills": {"s": {"secrets": ["A", "../b"]}}})
    assert [one["loc"] for one in caught.value.errors()] == [("skills", "s", "secrets", 1)]
    assert caught.value.title == "TenantPolicy"


def test_what_is_given_is_known_even_where_it_is_the_default() -> None:
    assert PoolSettings().given == frozenset()
    assert PoolSettings(size=0).given == {"size"}
    assert PoolSettings(size=0) == PoolSettings()
    assert hash(PoolSettings(size=0)) == hash(PoolSettings())
    settings = Settings.of({"pool": {"size": 0}})
    assert settings.given == {"pool"}
    assert settings.pool.given == {"size"}
    other = settings.replaced(engine="fake")
    assert other.given == {"pool", "engine"}
    assert other.pool.given == {"size"}


def test_others_are_others() -> None:
    assert PoolSettings(size=1) != PoolSettings()
    assert PoolSettings() != McpSettings()
    assert PoolSettings() != asdict(PoolSettings())


def test_it_cannot_be_changed() -> None:
    pool = PoolSettings(size=1)
    with pytest.raises(FrozenInstanceError):
        pool.size = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del pool.size


def test_copies_are_the_same() -> None:
    settings = Settings.of({"pool": {"size": 3}, "model": {"api_key": SECRET}})
    for same in (copy.copy(settings), copy.deepcopy(settings), pickle.loads(pickle.dumps(settings))):
        assert same == settings
        assert (same.given, same.pool.given) == (settings.given, settings.pool.given)


@pytest.mark.parametrize(
    "given",
    [
        {"model": {"api_key": [SECRET]}},
        {"server": {"api_key": {"a": SECRET}}},
        {"mcp": {"token": SECRET[:15]}},
        {"model": SECRET},
    ],
)
def test_an_error_shows_no_secret(given: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.of(given)
    assert SECRET[:15] not in f"{caught.value} {caught.value!r}"


def test_a_secret_is_shown_nowhere() -> None:
    model = ModelSettings.of({"api_key": SECRET})
    assert model.client_options().api_key == SECRET
    assert SECRET not in f"{model} {model!r} {asdict(model)} {vars(model)}"
    settings = Settings(model=model)
    assert SECRET not in f"{settings} {settings!r} {asdict(settings)} {vars(settings)}"


def test_it_can_be_a_part_of_what_pydantic_checks() -> None:
    class Whole(BaseModel):
        rule: SkillRule

    rule = SkillRule.of({"secrets": ["A"]})
    assert Whole.model_validate({"rule": {"secrets": ["A"]}}).rule == rule
    assert TypeAdapter(SkillRule).validate_python(rule) is rule
