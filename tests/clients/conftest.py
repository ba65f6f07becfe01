"""Real clients, pinned, each test with a fresh home and a model server of its own, out of reach of any network."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from agent_harness.testing.repo import Repo

from .client import KINDS, Client
from .island import Island

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))  # the fixture project of the scenarios: `acceptance`


@pytest.fixture(scope="session")
def installed() -> ModuleType:
    """``scripts/clients.py``, after it has put every client in place. A failed download is a failure."""
    script = ROOT / "scripts" / "clients.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(done.stderr.strip(), pytrace=False)
    spec = importlib.util.spec_from_file_location("clients_script", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def island(tmp_path: Path) -> Iterator[Island]:
    """A model server where there is no way out; afterwards, nobody has looked for one."""
    folder = tmp_path / "server"
    folder.mkdir()
    with Island(folder) as island:
        yield island
        assert island.ways_out() == []


@pytest.fixture(params=sorted(KINDS))
def client(request: pytest.FixtureRequest, installed: ModuleType, tmp_path: Path, island: Island) -> Client:
    """Each of the clients, in turn."""
    if installed.build_of(request.param) is None:
        pytest.skip(f"{request.param} has no pinned build for {installed.this_platform()}")
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_bytes((Path(os.environ["HOME"]) / ".gitconfig").read_bytes())
    return KINDS[request.param](installed.program(request.param), home, island)


@pytest.fixture
def project(tmp_path: Path) -> Repo:
    """A git project with one commit."""
    return Repo(tmp_path / "project").write("README.md", "A project.\n").commit("First")
