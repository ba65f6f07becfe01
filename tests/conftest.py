"""No test sees the real home directory, the caller's git settings, or an agent's credentials."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_DROPPED = ("HARNESS_", "GIT_", "ANTHROPIC_", "OPENAI_", "GEMINI_", "XDG_")


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("home")
    for name in [n for n in os.environ if n.startswith(_DROPPED)]:
        monkeypatch.delenv(name)
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Test Person\n\temail = person@localhost\n[init]\n\tdefaultBranch = main\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / ".cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    yield home
