"""The agents of the self-test, read from their files.

``agents/FOLDER/NAME.sh`` begins with comments: ``# lie: what it does`` (or ``honest:``, ``untellable:``), and, where it
does so elsewhere than in a feature project, ``# on: features tasks long``. What follows is run by ``sh`` behind
``sample/lib.sh``.
"""

from dataclasses import dataclass
from pathlib import Path

PROTOCOLS = ("features", "tasks", "long")
_HERE = Path(__file__).parent
AGENTS = _HERE / "agents"
SAMPLE = _HERE / "sample"
_KINDS = ("lie", "honest", "untellable")


@dataclass(frozen=True, kw_only=True)
class TrialAgent:
    """One agent on one protocol."""

    name: str
    kind: str  # lie, honest or untellable
    about: str
    protocol: str
    script: str

    @property
    def program(self) -> str:
        """What is run, whole."""
        return f"SELFTEST={self.protocol}\n{(SAMPLE / 'lib.sh').read_text(encoding='utf-8')}\n{self.script}"


def all_cases() -> list[TrialAgent]:
    """Every agent on every protocol that it is for, by kind and name."""
    found = [case for path in AGENTS.glob("*/*.sh") for case in _read(path)]
    return sorted(found, key=lambda case: (_KINDS.index(case.kind), case.name, PROTOCOLS.index(case.protocol)))


def _read(path: Path) -> list[TrialAgent]:
    text = path.read_text(encoding="utf-8")
    said = dict(line[2:].split(": ", 1) for line in text.splitlines() if line.startswith("# ") and ": " in line)
    kind = next(kind for kind in _KINDS if kind in said)
    return [
        TrialAgent(name=path.stem, kind=kind, about=said[kind], protocol=protocol, script=text)
        for protocol in said.get("on", "features").split()
    ]
