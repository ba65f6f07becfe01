"""What is wrong with a settings file, in words for a person."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError
from agent_harness.protocols.features.config.file import Key, Layers

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

    from agent_harness.protocols.features.config import schema

_WORDS: Mapping[str, str] = {
    "missing": "is missing",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text; put it in quotes",
    "literal_error": "must be {expected}",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "model_type": "must be a section with keys of its own",
    "model_attributes_type": "must be a section with keys of its own",
    "dict_type": "must be a section with keys of its own",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


def wrong(layers: Layers, problem: "ValidationError") -> ConfigurationError:
    """What the schema found, as one line about the first fault and the number of further ones."""
    return error(layers, [(_key(e["loc"]), _words(e)) for e in problem.errors(include_url=False)])


def _key(loc: tuple[int | str, ...]) -> Key:
    return tuple(str(part) for part in loc)


def _words(error: "ErrorDetails") -> str:
    said = _WORDS.get(error["type"], error["msg"]).format(**error.get("ctx", {}))
    shown = error["input"]
    if error["type"] == "missing" or isinstance(shown, Mapping):
        return said
    text = repr(shown)
    return f"{said} (it is {text if len(text) <= 60 else text[:57] + '...'})"


def error(layers: Layers, problems: list[tuple[Key, str]]) -> ConfigurationError:
    """An error that names file, key and line; ``problems`` are keys with what is wrong about them."""
    key, why = problems[0]
    document = layers.document
    outside = layers.where.get(key)
    line = None if outside else document.line(key)
    place = outside or (f"{document.path.name}:{line}" if line else document.path.name)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    target = outside or (f"line {line} of {document.path}" if line else f"{document.path}")
    verb = "Add it to" if why == _WORDS["missing"] else "Fix"
    return ConfigurationError(
        f"{place}: {'.'.join(key)} {why}{more}",
        hint=f"{verb} {document.path if verb == 'Add it to' else target}, then run the same command again.",
        file=str(document.path),
        key=".".join(key),
        line=line,
        problems=[f"{'.'.join(k)} {w}" for k, w in problems],
    )


def unknown_keys(model: "schema.Section", at: Key = ()) -> Iterator[Key]:
    """Keys that no setting has, below every known section."""
    yield from ((*at, name) for name in model.model_extra or {})
    for name in type(model).model_fields:
        for below, value in _sections(getattr(model, name)):
            yield from unknown_keys(value, (*at, name, *below))


def _sections(value: object) -> Iterator[tuple[Key, "schema.Section"]]:
    from agent_harness.protocols.features.config.schema import Section

    if isinstance(value, Section):
        yield (), value
    elif isinstance(value, Mapping):
        yield from (((str(name),), below) for name, below in value.items() if isinstance(below, Section))


def warning(layers: Layers, key: Key) -> str:
    """One line about an unknown key, with the setting that was probably meant."""
    from difflib import get_close_matches

    from agent_harness.protocols.features.config.schema import HarnessFile

    known = _names(HarnessFile)
    written = ".".join(key)
    near = get_close_matches(written, known, n=1, cutoff=0.75) or get_close_matches(
        key[-1], [name for name in known if name.rpartition(".")[2] == key[-1]], n=1
    )
    place = layers.where.get(key)
    if place is None:
        line = layers.document.lines.get(key)
        place = f"{layers.document.path.name}:{line}" if line else layers.document.path.name
    return f"{place}: unknown key {written!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _names(model: "type[schema.Section]", at: Key = ()) -> list[str]:
    from agent_harness.protocols.features.config.schema import Section

    names: list[str] = []
    for name, entry in model.model_fields.items():
        names.append(".".join((*at, name)))
        if isinstance(entry.annotation, type) and issubclass(entry.annotation, Section):
            names.extend(_names(entry.annotation, (*at, name)))
    return names
