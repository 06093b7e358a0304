"""Checked values as models of pydantic, each made when the first of its values is given."""

from __future__ import annotations

import sys
from dataclasses import fields
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from pydantic_core.core_schema import no_info_plain_validator_function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import CoreSchema

    from sandbox_skills.checked.value import Checked


class Form(BaseModel):
    """What forms have in common: a name that there is not is an error, and errors show no values, some are secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def checked(kind: type[Checked], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that are given, as they are to be taken; raises ValidationError."""
    return _given(_form(kind)(**given))


def late_schema(kind: type[Checked]) -> CoreSchema:
    """Returns what checks a value inside another. Its form is made with the first one: most are never given any."""
    return no_info_plain_validator_function(partial(_inner, kind))


def _inner(kind: type[Checked], value: object) -> Checked:
    # Faults inside keep their places: the library takes a ValidationError apart.
    return value if isinstance(value, kind) else kind.taken(_given(_form(kind).model_validate(value)))


def _given(form: BaseModel) -> dict[str, Any]:
    return {name: getattr(form, name) for name in form.model_fields_set}


_FORMS: dict[type[Checked], type[BaseModel]] = {}


def _form(kind: type[Checked]) -> type[BaseModel]:
    if kind not in _FORMS:
        _FORMS[kind] = _made(kind)
    return _FORMS[kind]


def _made(kind: type[Checked]) -> type[BaseModel]:
    names = {**vars(import_module(kind.KINDS)), **vars(sys.modules[kind.__module__])}
    hints = get_type_hints(kind, names, include_extras=True)
    usual = {
        one.name: Field(default_factory=one.default_factory)
        if callable(one.default_factory)
        else Field(default=one.default)
        for one in fields(kind)
    }

    def agree(form: BaseModel) -> BaseModel:
        kind.agree(cast("Checked", form))  # it has the same names
        return form

    return create_model(
        kind.__name__,
        __base__=kind.form_base(),
        __module__=kind.__module__,
        __validators__={"agree": cast("Any", model_validator(mode="after")(agree))},
        **cast("Any", {name: (hints[name], default) for name, default in usual.items()}),
    )
