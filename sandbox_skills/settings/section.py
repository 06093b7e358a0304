"""What sections of settings are made of.

Modules that have models have real annotations: those of text pydantic evaluates one by one, 20 ms of every start.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core.core_schema import no_info_plain_validator_function

from sandbox_skills.policy.rules import Seconds, Size

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

__all__ = ["AbsolutePath", "Count", "Late", "Seconds", "Section", "Size", "words"]


def _absolute(path: Path) -> Path:
    if not path.is_absolute() or "\0" in str(path):
        raise ValueError("must be an absolute path")
    return path


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Count = Annotated[int, Field(gt=0)]


def words(value: object) -> object:
    """Returns the words of a list that was given as one text, as a variable is; another value as it is."""
    return [word for word in value.replace(",", " ").split() if word] if isinstance(value, str) else value


class Section(BaseModel):
    """A group of settings; a name that it does not have is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @classmethod
    def usual(cls) -> Self:
        """Returns the section with its defaults, for which no validator has to be built."""
        return cls.model_construct()


AnySection = TypeVar("AnySection", bound=Section)


class _Late:
    """Has a section's validator built when a value is given: most commands are given one section, if any."""

    def __get_pydantic_core_schema__(self, source: type[Section], handler: object) -> "CoreSchema":
        return no_info_plain_validator_function(partial(self._validated, source))

    @staticmethod
    def _validated(section: type[Section], value: object) -> Section:
        # Faults inside keep their places: the library takes a ValidationError apart.
        return value if isinstance(value, section) else section.model_validate(value)


Late = Annotated[AnySection, _Late()]
