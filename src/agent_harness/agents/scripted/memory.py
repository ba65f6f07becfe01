"""What the scripted agent remembers between its turns: which entries were used, which sessions a feature had.

It lives in the folder of the repository's git data, so that no rollback of the work tree takes it back.
"""

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(slots=True)
class Memory:
    """Counts of one script in one project, kept in ``path``."""

    path: Path
    uses: dict[str, int] = field(default_factory=dict)
    sessions: dict[str, list[int]] = field(default_factory=dict)  # feature → sessions that worked on it

    @classmethod
    def open(cls, project: Path, script: Path) -> "Memory":
        """What is remembered; a missing or damaged memory is an empty one."""
        name = hashlib.sha256(f"{project.resolve()}\0{script.resolve()}".encode()).hexdigest()[:16]
        path = _folder(project) / f"{name}.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return cls(path, dict(found["uses"]), dict(found["sessions"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(path)

    def attempt(self, feature: int | None, session: int) -> int:
        """Which session on this feature this is, counted from 1."""
        known = self.sessions.setdefault(str(feature), [])
        if session not in known:
            known.append(session)
        return known.index(session) + 1

    def use(self, key: str) -> None:
        """Counts one use of an entry, durably, before it is played: a turn that is killed has been used."""
        self.uses[key] = self.uses.get(key, 0) + 1
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps({"uses": self.uses, "sessions": self.sessions}), encoding="utf-8")
        temporary.replace(self.path)


def _folder(project: Path) -> Path:
    asked = subprocess.run(
        ["git", "rev-parse", "--path-format=absolute", "--git-common-dir"],
        cwd=project,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode == 0 and asked.stdout.strip():
        return Path(asked.stdout.strip()) / "agent-scripted"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "agent-harness" / "scripted"
