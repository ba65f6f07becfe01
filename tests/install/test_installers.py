"""The wheel as people install it: uv and pipx, pinned, each on a machine that has never seen the project."""

import subprocess
from pathlib import Path

import pytest

import agent_harness

from .fresh import INSTALLERS, Machine

pytestmark = [pytest.mark.install, pytest.mark.timeout(900)]


@pytest.mark.parametrize("installer", sorted(INSTALLERS))
def test_what_an_installer_puts_on_path_works(installer: str, wheel: Path, tmp_path: Path) -> None:
    """FIX-3, F-HELP-4: it says its version, looks at the machine, completes, has pages for man, plays the demo."""
    machine = Machine(tmp_path, installer)
    installed = machine.install(wheel)
    assert installed.code == 0, installed
    assert machine.type("harness", "--version").out == f"harness {agent_harness.__version__}\n"
    doctor = machine.type("harness", "doctor")
    assert (doctor.code, doctor.out.startswith("ok  python")) == (0, True), doctor
    assert str(machine.home) in doctor.out.splitlines()[0]
    script = machine.type("harness", "completion", "bash")
    assert subprocess.run(["bash", "-n"], input=script.out, text=True, check=False).returncode == 0
    assert "complete -o default" in script.out
    assert all((pages_for_man(machine) / f"{name}.1").read_text().startswith(".") for name in ("harness", "lth"))
    demo = machine.type("harness", "demo", "--plain", str(tmp_path / "demo"))
    assert (demo.code, "Everything ended as promised." in demo.out) == (0, True), demo
    assert (tmp_path / "demo/python/bin/pytest").exists()


def pages_for_man(machine: Machine) -> Path:
    """Where the README says that they are: pipx links them to where ``man`` looks, uv does not."""
    if machine.installer == "pipx":
        return machine.home / ".local/share/man/man1"
    return Path(machine.type("uv", "tool", "dir").out.strip()) / "proven-harness/share/man/man1"


def test_a_demo_that_cannot_fetch_pytest_says_what_to_type_and_leaves_nothing(wheel: Path, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "uv")
    assert machine.install(wheel).code == 0
    demo = machine.type("harness", "demo", str(tmp_path / "demo"), UV_FIND_LINKS=str(tmp_path / "none"))
    assert (demo.code, demo.out) == (4, ""), demo
    assert demo.err.splitlines()[-1].startswith("next: uv tool install --with 'pytest>=8.4' "), demo
    assert not (tmp_path / "demo").exists()
