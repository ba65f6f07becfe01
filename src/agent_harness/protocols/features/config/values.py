"""The kinds of values that settings hold, and what every section has in common."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

_WORDS = {"yes": True, "on": True, "true": True, "no": False, "off": False, "false": False}


def _switch(value: object) -> object:
    """YAML 1.2 reads ``no`` as text; people mean false."""
    return _WORDS.get(value.lower(), value) if isinstance(value, str) else value


def _command(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _blank_is_none(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


def _title(value: str) -> str:
    if not value.strip() or any(ord(c) < 32 for c in value):
        raise ValueError("must be one line of text that is not empty")
    return value


def _inside(value: str) -> str:
    parts = value.replace("\\", "/").split("/")
    if not value.strip() or value.startswith("/") or ".." in parts or "\0" in value:
        raise ValueError("must be a path inside the project")
    return value.rstrip("/")


def _folder(value: str) -> str:
    if _inside(value) in {".", ".git"} or value.startswith(".git/"):
        raise ValueError("must name a folder inside the project, and not .git")
    return value.rstrip("/")


Switch = Annotated[bool, BeforeValidator(_switch)]
Title = Annotated[str, AfterValidator(_title)]
Command = Annotated[str, AfterValidator(_command)]
OptionalCommand = Annotated[Command | None, BeforeValidator(_blank_is_none)]
Inside = Annotated[str, AfterValidator(_inside)]
Folder = Annotated[str, AfterValidator(_folder)]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
CountOrNone = Annotated[int, Field(ge=0, le=1_000_000_000)]
Dollars = Annotated[float, Field(ge=0, le=1_000_000_000, allow_inf_nan=False)]
Minutes = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]


class Section(BaseModel):
    """A part of the file. Frozen; an empty value (``key:``) counts as absent; unknown keys stay in ``model_extra``."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True, validate_default=False)

    @model_validator(mode="before")
    @classmethod
    def _empty_is_absent(cls, given: object) -> object:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given
