"""The command that adds an optional part fits the way in which the package came here; faces.md FIX-3."""

import json
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASK = """
from agent_harness.installation import command_for_extra, command_for_package
print(command_for_extra("api"))
print(command_for_package("x>=1"))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without pip whose only package is a wheel's metadata and the source folder."""
    place = tmp_path_factory.mktemp("installed") / "env"
    venv.create(place, with_pip=False, symlinks=True)
    site = next((place / "lib").glob("python3*")) / "site-packages"
    (site / "ours.pth").write_text(str(ROOT / "src"))
    noted = site / "proven_harness-1.0.dist-info"
    noted.mkdir()
    (noted / "METADATA").write_text("Metadata-Version: 2.1\nName: proven-harness\nVersion: 1.0\n")
    return place


def asked(place: Path, *, receipt: str | None = None, origin: Mapping[str, object] | None = None) -> list[str]:
    """What the two commands are there."""
    noted = next(place.glob("lib/python3*/site-packages/proven_harness-*.dist-info")) / "direct_url.json"
    if origin:
        noted.write_text(json.dumps(origin))
    if receipt:
        (place / receipt).write_text("")
    try:
        done = subprocess.run([place / "bin/python", "-I", "-c", ASK], capture_output=True, text=True, check=True)
    finally:
        noted.unlink(missing_ok=True)
        if receipt:
            (place / receipt).unlink()
    return done.stdout.splitlines()


def test_every_installer_is_named_by_its_own_command(environment: Path) -> None:
    python = shlex.quote(str(environment / "bin/python"))
    assert asked(environment) == [
        f"uv pip install --python {python} 'proven-harness[api]'",
        f"uv pip install --python {python} 'x>=1'",
    ]
    assert asked(environment, receipt="uv-receipt.toml") == [
        "uv tool install --force 'proven-harness[api]'",
        "uv tool install --with 'x>=1' proven-harness",
    ]
    assert asked(environment, receipt="pipx_metadata.json") == [
        "pipx install --force 'proven-harness[api]'",
        "pipx inject proven-harness 'x>=1'",
    ]


def test_what_makes_the_environment_anew_keeps_the_parts_that_are_there(environment: Path) -> None:
    """One extra after the other: none takes away those that came before it."""
    site = next((environment / "lib").glob("python3*")) / "site-packages"
    needs = "Requires-Dist: seen<2,>=1 ; extra == 'serve'\nRequires-Dist: un-seen ; extra == 'otel'\n"
    noted = site / "proven_harness-1.0.dist-info/METADATA"
    before = noted.read_text()
    seen = site / "seen-1.0.dist-info/METADATA"
    seen.parent.mkdir()
    seen.write_text("Metadata-Version: 2.1\nName: seen\nVersion: 1.0\n")
    noted.write_text(before + needs)
    try:
        assert asked(environment, receipt="uv-receipt.toml") == [
            "uv tool install --force 'proven-harness[api,serve]'",
            "uv tool install --with 'x>=1' 'proven-harness[serve]'",
        ]
        assert asked(environment, receipt="pipx_metadata.json")[0] == "pipx install --force 'proven-harness[api,serve]'"
        assert asked(environment)[0].endswith(" 'proven-harness[api]'")
    finally:
        noted.write_text(before)
        seen.unlink()
        seen.parent.rmdir()


def test_what_came_from_elsewhere_comes_from_there_again(environment: Path) -> None:
    folder = {"url": "file:///some%20where/it", "dir_info": {"editable": True}}
    assert asked(environment, receipt="pipx_metadata.json", origin=folder)[0].endswith("-e '/some where/it[api]'")
    version = {"url": "https://localhost/it.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}}
    wanted = "uv tool install --force 'proven-harness[api] @ git+https://localhost/it.git@abc'"
    assert asked(environment, receipt="uv-receipt.toml", origin=version)[0] == wanted


def test_the_environment_of_this_project_is_named_with_its_own_pip() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert (
        done.stdout.splitlines()[0] == f"{shlex.quote(sys.executable)} -m pip install -e {shlex.quote(f'{ROOT}[api]')}"
    )


def test_no_page_and_no_hint_names_the_strangers_package() -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *(ROOT / "src").rglob("*.py")]
    assert len(files) > 100
    wrong = [str(path) for path in files if "install 'agent-harness" in path.read_text()]
    assert wrong == []
