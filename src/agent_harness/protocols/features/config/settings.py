"""Settings of a project, each with its source. A later source overrides an earlier one: default, file, environment,
flag. ``HARNESS_<SECTION>__<KEY>`` sets a key, as in ``HARNESS_COSTS__PER_SESSION_USD=5``. Source: ``features.md``
section J."""

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError
from agent_harness.protocols.features.config import commands, file
from agent_harness.protocols.features.config.file import Key, Layers, Source, default_text
from agent_harness.protocols.features.layout import FeatureLayout

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from agent_harness.protocols.features.config import schema

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]


@dataclass(frozen=True, kw_only=True)
class Config:
    project: "schema.ProjectSection"
    environment: "schema.Environment"
    testing: "schema.Testing"
    costs: "schema.Costs"
    models: "schema.Models"
    context: "schema.Context"
    progress: "schema.Progress"
    quality: "schema.Quality"
    verification: "schema.Verification"
    review: "schema.ReviewSection"
    report: "schema.ReportSection"
    sandbox: "schema.SandboxSection"
    features: "schema.Features"
    github: "schema.GitHub"
    git: "schema.GitSettings"
    logging: "schema.Logging"
    paths: "schema.Paths"
    tools: "schema.Tools"
    session: "schema.Session"
    preflight: "schema.Preflight"
    compatibility: "schema.Compatibility"
    checkpoints: "schema.Checkpoints"
    maintenance: "schema.Maintenance"
    parallel: "schema.Parallel"
    agent: Mapping[str, object] | None  # for the registry of agents, as it stands in the file
    path: Path
    warnings: tuple[str, ...]
    _raw: Mapping[str, object] = field(repr=False)
    _rows: Mapping[str, tuple[object, Source]] = field(repr=False)

    @property
    def raw(self) -> dict[str, object]:
        return copy.deepcopy(dict(self._raw))

    def origin(self, key: str) -> Source:
        """Return the key's source. For a section, return the source with the highest precedence."""
        if key in self._rows:
            return self._rows[key][1]
        found = [source for name, (_, source) in self._rows.items() if name.startswith(f"{key}.")]
        if not found:
            raise KeyError(key)
        return max(found, key=("default", "file", "environment", "flag").index)

    def is_model_chosen(self, prompt_type: str) -> bool:
        return any(self.origin(f"models.{name}") != "default" for name in ("default", prompt_type))

    def rows(self) -> Iterator[tuple[str, object, Source]]:
        return ((key, value, source) for key, (value, source) in self._rows.items())

    @property
    def check_commands(self) -> list[str]:
        testing = self.testing
        found = (testing.full, testing.feature, testing.unit, testing.e2e, testing.sanity.lint)
        return [command for command in (*found, self.quality.lint_command) if command]

    @property
    def environment_commands(self) -> list[str]:
        settings = self.environment
        found = (settings.init, settings.reset, settings.health_check, settings.stop, self.testing.sanity.health)
        return [command for command in found if command]

    def test_command(self, test_file: str) -> str:
        """Return the command that runs the tests in ``test_file``, or all tests if it is empty (UAH-190, C22)."""
        if not test_file:
            return str(self.testing.full)
        if self.testing.feature is None:
            raise ConfigurationError(
                f"{self.path.name}: testing.feature is missing, and `{self.testing.full}` does not name a test file",
                hint=f"Add testing.feature to {self.path}: the command for one file, with {{test_file}} in it.",
                file=str(self.path),
                key="testing.feature",
            )
        try:
            return commands.with_file(self.testing.feature, test_file)
        except ValueError as problem:
            raise ConfigurationError(f"test_file: {problem}", file=str(self.path)) from None

    def suite_with(self, test_file: str) -> str:
        """Return the command of the whole suite as a person types it, or "" if it does not run ``test_file``."""
        command = str(self.testing.full)
        places = [word for word in command.split()[1:] if "/" in word and not word.startswith(("-", "./..."))]
        runs = not places or any(fnmatch(test_file, f"{each.removeprefix('./').rstrip('/')}*") for each in places)
        return command if runs else ""


def load(
    project: str | os.PathLike[str],
    environ: Mapping[str, str] | None = None,
    *,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """Return a project's settings. Raise ``ConfigurationError`` if they are not valid."""
    root = Path(project)
    environ = os.environ if environ is None else environ
    document = file.read(Path(FeatureLayout(root).settings))
    sources: dict[Key, Source] = {key: "file" for key, value in file.leaves(document.values) if value is not None}
    layers = Layers(document, {"project": {}} | copy.deepcopy(document.values), sources)
    for name in sorted(environ):
        parts = name.removeprefix("HARNESS_").lower().split("__")
        if name.startswith("HARNESS_") and len(parts) > 1 and all(parts):
            layers.set(tuple(parts), file.scalar(environ[name]), "environment", where=name)
    for dotted, value in (flags or {}).items():
        layers.set(tuple(dotted.split(".")), value, "flag", where=f"--{dotted.rpartition('.')[2].replace('_', '-')}")
    _derive(layers, commands.facts(root, environ))
    return _validated(layers)


def json_schema() -> dict[str, object]:
    from agent_harness.protocols.features.config.schema import HarnessFile

    answer: dict[str, object] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agent-harness: .harness.yaml",
    }
    return answer | {k: v for k, v in HarnessFile.model_json_schema().items() if k != "title"}


def _derive(layers: Layers, facts: commands.FoundTooling) -> None:
    """Fill in missing settings from related keys (C17) or from tools in the project (C22)."""
    for key, other in _NEIGHBOURS:
        if not layers.decided(key) and layers.get(other):
            layers.set(key, layers.get(other), layers.sources.get(other, "default"))
    sanity_lint = None if facts.lint is None else f"{facts.lint} --select=E,F,W"
    for key, value in (
        (("quality", "lint_command"), facts.lint),
        (("testing", "sanity", "lint"), None if layers.decided(("quality", "lint_command")) else sanity_lint),
        (("testing", "unit"), f"{facts.runner} tests/unit -x"),
        (("testing", "e2e"), f"{facts.runner} tests/e2e -x"),
        (("testing", "full"), f"{facts.runner} tests/ -v"),
    ):
        if not layers.decided(key) or (key == ("testing", "full") and not layers.get(key)):
            layers.set(key, value, "default")
    full = layers.get(("testing", "full"))
    if not layers.get(("testing", "feature")) and isinstance(full, str):
        layers.set(("testing", "feature"), commands.feature_command(full), "default")


_NEIGHBOURS: tuple[tuple[Key, Key], ...] = (
    (("testing", "sanity", "lint"), ("quality", "lint_command")),
    (("quality", "lint_command"), ("testing", "sanity", "lint")),
    (("testing", "sanity", "health"), ("environment", "health_check")),
    (("environment", "health_check"), ("testing", "sanity", "health")),
    (("github", "repo"), ("project", "github_repo")),
    (("project", "github_repo"), ("github", "repo")),
)


def _validated(layers: Layers) -> Config:
    from pydantic import ValidationError

    from agent_harness.protocols.features.config.schema import HarnessFile

    try:
        model = HarnessFile.model_validate(layers.values)
    except ValidationError as problem:
        found = problem.errors(include_url=False)
        raise error(layers, [(tuple(str(part) for part in e["loc"]), _words(e)) for e in found]) from None
    feature = model.testing.feature
    if feature is not None and (why := commands.quoting_problem(feature)):
        raise error(layers, [(("testing", "feature"), why)])
    sections = {name: getattr(model, name) for name in HarnessFile.model_fields}
    unknown = list(_unknown_keys(model))
    rows = {
        ".".join(key): (value, layers.sources.get(key, "default"))
        for key, value in file.leaves(model.model_dump(by_alias=True))
        if not any(key[: len(u)] == u for u in unknown)
    }
    warnings = tuple(_warning_of(layers, key) for key in unknown)
    return Config(**sections, path=layers.document.path, warnings=warnings, _raw=layers.document.values, _rows=rows)


# -- error messages for a person ---------------------------------------------------------------------------------------


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
    "model_type": "must be a section with keys",
    "model_attributes_type": "must be a section with keys",
    "dict_type": "must be a section with keys",
    "tuple_type": "must be a list",
    "value_error": "{error}",
}


def _words(error: "ErrorDetails") -> str:
    said = _WORDS.get(error["type"], error["msg"]).format(**error.get("ctx", {}))
    shown = error["input"]
    if error["type"] == "missing" or isinstance(shown, Mapping):
        return said
    text = repr(shown)
    return f"{said} (it is {text if len(text) <= 60 else text[:57] + '...'})"


def error(layers: Layers, problems: list[tuple[Key, str]]) -> ConfigurationError:
    """Return an error that names the file, key and line of the first problem."""
    key, why = problems[0]
    document = layers.document
    outside = layers.where.get(key)
    line = None if outside else document.line(key)
    workspace = outside or (f"{document.path.name}:{line}" if line else document.path.name)
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    target = outside or (f"line {line} of {document.path}" if line else f"{document.path}")
    verb = "Add it to" if why == _WORDS["missing"] else "Fix"
    return ConfigurationError(
        f"{workspace}: {'.'.join(key)} {why}{more}",
        hint=f"{verb} {document.path if verb == 'Add it to' else target}, then run the same command again.",
        file=str(document.path),
        key=".".join(key),
        line=line,
        problems=[f"{'.'.join(k)} {w}" for k, w in problems],
    )


def _unknown_keys(model: "schema.Section", at: Key = ()) -> Iterator[Key]:
    yield from ((*at, name) for name in model.model_extra or {})
    for name in type(model).model_fields:
        for below, value in _sections(getattr(model, name)):
            yield from _unknown_keys(value, (*at, name, *below))


def _sections(value: object) -> Iterator[tuple[Key, "schema.Section"]]:
    from agent_harness.protocols.features.config.schema import Section

    if isinstance(value, Section):
        yield (), value
    elif isinstance(value, Mapping):
        yield from (((str(name),), below) for name, below in value.items() if isinstance(below, Section))


def _warning_of(layers: Layers, key: Key) -> str:
    from difflib import get_close_matches

    from agent_harness.protocols.features.config.schema import HarnessFile

    known = _setting_names(HarnessFile)
    written = ".".join(key)
    near = get_close_matches(written, known, n=1, cutoff=0.75) or get_close_matches(
        key[-1], [name for name in known if name.rpartition(".")[2] == key[-1]], n=1
    )
    workspace = layers.where.get(key)
    if workspace is None:
        line = layers.document.lines.get(key)
        workspace = f"{layers.document.path.name}:{line}" if line else layers.document.path.name
    return f"{workspace}: unknown key {written!r}" + (f"; did you mean {near[0]!r}?" if near else "")


def _setting_names(model: "type[schema.Section]", at: Key = ()) -> list[str]:
    from agent_harness.protocols.features.config.schema import Section

    names: list[str] = []
    for name, entry in model.model_fields.items():
        names.append(".".join((*at, name)))
        if isinstance(entry.annotation, type) and issubclass(entry.annotation, Section):
            names.extend(_setting_names(entry.annotation, (*at, name)))
    return names
