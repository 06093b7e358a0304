"""The base of plain values that are checked when they are given. It needs no pydantic before that."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, NoReturn, cast, dataclass_transform

if TYPE_CHECKING:
    from collections.abc import Mapping
    from dataclasses import Field
    from typing import ClassVar, Self

    from pydantic import BaseModel, GetCoreSchemaHandler
    from pydantic_core import CoreSchema


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Checked:
    """A frozen dataclass, with a default for each field, whose annotations are pydantic's.

    They are texts, read when the first value is given: with the names of the class's module and of the module KINDS.
    What is given is checked and taken as pydantic takes it, and raises its ValidationError, which shows no values. So
    every one that there is is right, however it was made. Each subclass is made a dataclass by itself; what the
    library would write for each of them, half a millisecond for one, is here.
    """

    KINDS = "sandbox_skills.checked.kinds"

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        """Makes it a dataclass."""
        dataclass(init=False, repr=False, eq=False)(cls)

    def __init__(self, **given: Any) -> None:  # noqa: ANN401  # type checkers know of the fields
        if given:
            from sandbox_skills.checked.form import checked  # noqa: PLC0415  # pydantic

            given = checked(type(self), given)
        self._take(given)

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Returns one with these values, such as a file or a body has them; raises pydantic's ValidationError."""
        return cls(**given)

    @classmethod
    def taken(cls, checked: Mapping[str, Any]) -> Self:
        """Returns one with values that are checked by now."""
        made = object.__new__(cls)
        made._take(checked)
        return made

    @property
    def given(self) -> frozenset[str]:
        """The names of the values that were given, be they those of the defaults."""
        return cast("frozenset[str]", self.__dict__["given"])

    def replaced(self, **values: Any) -> Self:  # noqa: ANN401  # they are checked
        """Returns it with other values.

        What was given counts as given still, and the rest does not: `dataclasses.replace` would give all of them.
        """
        return type(self)(**{name: getattr(self, name) for name in self.given} | values)

    def agree(self) -> None:
        """Raises ValueError for values that do not go together."""

    @classmethod
    def form_base(cls) -> type[BaseModel]:
        """Returns the model that the one is made from which checks."""
        from sandbox_skills.checked.form import Form  # noqa: PLC0415  # pydantic

        return Form

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Lets it be a part of what pydantic checks."""
        from sandbox_skills.checked.form import late_schema  # noqa: PLC0415  # pydantic, which asks

        return late_schema(cls)

    def _take(self, values: Mapping[str, Any]) -> None:
        usual = {
            one.name: one.default_factory() if callable(one.default_factory) else one.default
            for one in fields(self)
            if one.name not in values
        }
        self.__dict__.update({**usual, **values, "given": frozenset(values)})

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, one.name) for one in fields(self))

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        values = zip(fields(self), self._values(), strict=True)
        return f"{type(self).__qualname__}({', '.join(f'{one.name}={value!r}' for one, value in values)})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")
