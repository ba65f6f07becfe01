"""The package as people get it: one version, both commands, and every file that is not code in the wheel."""

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import agent_harness

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))
import package  # noqa: E402

BIN = Path(sys.executable).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built with no network."""
    return zipfile.ZipFile(package.built(tmp_path_factory.mktemp("wheel")))


def test_one_version_everywhere() -> None:
    """UAH-017, UAH-026."""
    newest = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    told = subprocess.run([str(BIN / "harness"), "--version"], capture_output=True, text=True, check=True).stdout
    assert newest is not None
    assert PROJECT["version"] == agent_harness.__version__ == newest.group(1)
    assert importlib.metadata.version("proven-harness") == PROJECT["version"]
    assert PROJECT["version"] in told


@pytest.mark.scenario
def test_it_installs_from_a_revision_in_git(tmp_path: Path) -> None:
    """UAH-025: pip clones the repository at a tag and builds it there; what is installed says so, and runs."""
    tree, place = package.copied(tmp_path / "tree"), tmp_path / "site"
    for words in ("init -q -b main", "add -A", "commit -q -m Released", "tag v1", "commit -q --allow-empty -m Later"):
        subprocess.run(["git", *words.split()], cwd=tree, check=True)
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-cache-dir"]
    environ = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    made = subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", place, f"git+{tree.as_uri()}@v1"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (origin,) = place.glob("proven_harness-*.dist-info/direct_url.json")
    tagged = subprocess.run(["git", "rev-parse", "v1"], cwd=tree, capture_output=True, text=True, check=True)
    assert json.loads(origin.read_text())["vcs_info"]["commit_id"] == tagged.stdout.strip()
    program = (
        f"import sys; sys.path.insert(0, {str(place)!r}); sys.argv = ['harness', '--version']\n"
        "import agent_harness.cli.main as main; print(main.__file__); main.main()"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    file, version = ran.stdout.splitlines()
    assert Path(file).is_relative_to(place)
    assert PROJECT["version"] in version


NAMES = {"proven-harness": "harness"}  # the name of the distribution starts the same program


@pytest.mark.parametrize("command", PROJECT["scripts"])
def test_console_scripts_are_installed_and_answer(command: str) -> None:
    """UAH-017, UAH-018."""
    told = subprocess.run([str(BIN / command), "--help"], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert f"{NAMES.get(command, command)} " in told.stdout


def test_the_wheel_holds_every_tracked_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    """UAH-016, UAH-021, UAH-023."""
    wanted = {name.removeprefix("src/") for name in package.tracked("src")}
    assert "agent_harness/py.typed" in wanted
    assert any(name.startswith("agent_harness/protocols/features/prompts/") for name in wanted)
    assert any(name.startswith("agent_harness/demo/sample/") for name in wanted)
    assert wanted - set(wheel.namelist()) == set()


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    named = f"proven_harness-{PROJECT['version']}"
    assert tops == {"agent_harness", f"{named}.dist-info", f"{named}.data"}


def test_the_wheel_holds_the_pages_for_man(wheel: zipfile.ZipFile) -> None:
    """F-HELP-4: where `man` finds them, beside the `bin` of the commands."""
    pages = {name for name in wheel.namelist() if ".data/" in name and not name.endswith("/")}
    place = f"proven_harness-{PROJECT['version']}.data/data/share/man/man1"
    assert pages == {f"{place}/{command}.1" for command in set(PROJECT["scripts"]) - set(NAMES)}
    for name in pages:
        assert wheel.read(name) == (ROOT / "man/share/man/man1" / Path(name).name).read_bytes()


def test_nothing_outside_the_core_dependencies_is_needed(wheel: zipfile.ZipFile) -> None:
    """UAH-020."""
    metadata = wheel.read(f"proven_harness-{PROJECT['version']}.dist-info/METADATA").decode()
    required = re.findall(r"^Requires-Dist: ([\w.-]+)(?!.*extra ==)", metadata, re.MULTILINE)
    assert sorted(required) == ["click", "psutil", "pydantic", "rich", "ruamel-yaml", "stamina"]
