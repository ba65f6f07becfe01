"""Where everything of one demo is.

PATH/
  shorty/        the project that the agent builds; a git repository with .harness/ in it
    SPEC.md      the specification it is built from
  origin.git/    where the harness pushes what it accepts
  agent.yaml     the script that the scripted agent plays
  demo.log       every line that the harness printed
"""

from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from agent_harness.protocols.features.layout import FeatureLayout

NAME = "shorty"


@dataclass(frozen=True)
class DemoLayout:
    """The paths of one demo."""

    root: Path

    @property
    def project(self) -> Path:
        return self.root / NAME

    @property
    def spec(self) -> Path:
        return self.project / "SPEC.md"

    @property
    def origin(self) -> Path:
        return self.root / "origin.git"

    @property
    def script(self) -> Path:
        return self.root / "agent.yaml"

    @property
    def log(self) -> Path:
        return self.root / "demo.log"

    @property
    def state(self) -> FeatureLayout:
        """The files that the harness keeps in the project."""
        return FeatureLayout(self.project)


def sample() -> Traversable:
    """The bundled specification and script."""
    return resources.files("agent_harness.demo") / "sample"


def bundled_script() -> str:
    """The scripted agent's whole script: one YAML list, joined from one file a feature."""
    parts = sorted((p for p in (sample() / "script").iterdir() if p.name.endswith(".yaml")), key=lambda p: p.name)
    return "\n".join(part.read_text(encoding="utf-8") for part in parts)
