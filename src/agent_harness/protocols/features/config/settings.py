"""``.harness.yaml``: every setting with its value and its source (default < file < environment < flag).

An environment variable ``HARNESS_<SECTION>__<KEY>`` sets a key, with two underscores between the levels:
``HARNESS_COSTS__PER_SESSION_USD=5``. Source: ``features.md`` section J.
"""

import copy
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError
from agent_harness.protocols.features.config import commands, file, problems
from agent_harness.protocols.features.config.file import Key, Layers, Source
from agent_harness.protocols.features.config.template import default_text
from agent_harness.protocols.features.layout import FeatureLayout

if TYPE_CHECKING:
    from agent_harness.protocols.features.config import schema

__all__ = ["Config", "Source", "default_text", "json_schema", "load"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of one project; sections as attributes, each frozen."""

    project: "schema.ProjectSection"
    environment: "schema.Environment"
    testing: "schema.Testing"
    costs: "schema.Costs"
    models: "schema.Models"
    context: "schema.Context"
    progress: "schema.Progress"
    quality: "schema.Quality"
    verification: "schema.Verification"
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
    agent: Mapping[str, object] | None  # for the registry of agents, as it stands in the file
    path: Path
    warnings: tuple[str, ...]
    _raw: Mapping[str, object] = field(repr=False)
    _rows: Mapping[str, tuple[object, Source]] = field(repr=False)

    @property
    def raw(self) -> dict[str, object]:
        """What the file says, in plain values, unknown keys included; a copy."""
        return copy.deepcopy(dict(self._raw))

    def origin(self, key: str) -> Source:
        """Where ``section.key`` comes from; of a section: the strongest source in it. KeyError: no such setting."""
        if key in self._rows:
            return self._rows[key][1]
        found = [source for name, (_, source) in self._rows.items() if name.startswith(f"{key}.")]
        if not found:
            raise KeyError(key)
        return max(found, key=_STRENGTH.index)

    def rows(self) -> Iterator[tuple[str, object, Source]]:
        """Every setting with its value and source, in the order of the schema."""
        return ((key, value, source) for key, (value, source) in self._rows.items())

    def test_command(self, test_file: str) -> str:
        """The shell command that runs one feature's tests; ``test_file`` may carry ``::node`` and odd characters.

        ConfigurationError when neither ``testing.feature`` nor ``testing.full`` tells how (C22).
        """
        if self.testing.feature is None:
            raise ConfigurationError(
                f"{self.path.name}: testing.feature is missing, and `{self.testing.full}` does not tell it",
                hint=f"Add testing.feature to {self.path}: the command for one file, with {{test_file}} in it.",
                file=str(self.path),
                key="testing.feature",
            )
        try:
            return commands.with_file(self.testing.feature, test_file)
        except ValueError as problem:
            raise ConfigurationError(f"test_file: {problem}", file=str(self.path)) from None


_STRENGTH: tuple[Source, ...] = ("default", "file", "environment", "flag")


def load(
    project: str | os.PathLike[str],
    environ: Mapping[str, str] | None = None,
    *,
    flags: Mapping[str, object] | None = None,
) -> Config:
    """The settings of a project; ``flags`` maps dotted keys to values of the command line.

    ConfigurationError names file, key and line: a missing or broken file, a wrong type, a missing ``project.name``.
    Unknown keys are warnings.
    """
    root = Path(project)
    environ = os.environ if environ is None else environ
    document = file.read(Path(FeatureLayout(root).settings))
    layers = Layers(document, {"project": {}} | copy.deepcopy(document.values))
    layers.overlay(document.values, "file")
    for name, key, value in _from_environment(environ):
        layers.set(key, value, "environment", where=name)
    for dotted, value in (flags or {}).items():
        layers.set(tuple(dotted.split(".")), value, "flag", where=f"--{dotted.rpartition('.')[2].replace('_', '-')}")
    _derive(layers, commands.facts(root, environ))
    return _validated(layers)


def json_schema() -> dict[str, object]:
    """The JSON Schema (2020-12) of ``.harness.yaml``."""
    from agent_harness.protocols.features.config.schema import HarnessFile

    answer: dict[str, object] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "agent-harness: .harness.yaml",
    }
    return answer | {k: v for k, v in HarnessFile.model_json_schema().items() if k != "title"}


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Key, object]]:
    for name in sorted(environ):
        parts = name.removeprefix("HARNESS_").lower().split("__")
        if name.startswith("HARNESS_") and len(parts) > 1 and all(parts):
            yield name, tuple(parts), file.scalar(environ[name])


def _derive(layers: Layers, facts: commands.FoundTooling) -> None:
    """Fills what the settings leave open: from a neighbour key (C17), else from the project (C22)."""
    for key, other in _NEIGHBOURS:
        if not layers.given(key) and layers.get(other):
            layers.set(key, layers.get(other), layers.sources.get(other, "default"))
    sanity_lint = None if facts.lint is None else f"{facts.lint} --select=E,F,W"
    for key, value in (
        (("quality", "lint_command"), facts.lint),
        (("testing", "sanity", "lint"), None if layers.given(("quality", "lint_command")) else sanity_lint),
        (("testing", "unit"), f"{facts.runner} tests/unit -x"),
        (("testing", "e2e"), f"{facts.runner} tests/e2e -x"),
        (("testing", "full"), f"{facts.runner} tests/ -v"),
    ):
        if not layers.given(key) or (key == ("testing", "full") and not layers.get(key)):
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
        raise problems.wrong(layers, problem) from None
    feature = model.testing.feature
    if feature is not None and (why := commands.quoting_problem(feature)):
        raise problems.error(layers, [(("testing", "feature"), why)])
    sections = {name: getattr(model, name) for name in HarnessFile.model_fields}
    unknown = list(problems.unknown_keys(model))
    rows = {
        ".".join(key): (value, layers.sources.get(key, "default"))
        for key, value in file.leaves(model.model_dump())
        if not any(key[: len(u)] == u for u in unknown)
    }
    warnings = tuple(problems.warning(layers, key) for key in unknown)
    return Config(**sections, path=layers.document.path, warnings=warnings, _raw=layers.document.values, _rows=rows)
