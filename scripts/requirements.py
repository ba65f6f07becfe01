"""Compiles the files of pins in ``requirements/`` from ``pyproject.toml``: the build backend, and each group.

Pins carry hashes and no address, hold for every platform and Python version the project supports, and change only
when this runs. With ``--upgrade`` every pin moves to the newest version that ``pyproject.toml`` allows.
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")
WITH_PROJECT = {
    "dev": ["pyproject.toml"],
    "install": ["pyproject.toml", "--constraint", "requirements/dev.txt"],
}
"""The groups whose packages stand in one environment with the project, or make one; the others stand beside it."""


def main(words: list[str]) -> int:
    """0 when all files are written; else the status of the command that failed."""
    if not UV.exists():
        status = subprocess.run(
            [sys.executable, "-m", "pip", "install", "-q", "uv>=0.13,<0.14"], check=False
        ).returncode
        if status:
            return status
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    status = compiled("build.txt", ["-"], words, stdin="\n".join(declared["build-system"]["requires"]))
    for group in declared["dependency-groups"]:
        project = WITH_PROJECT.get(group, [])
        status = status or compiled(f"{group}.txt", ["--group", group, *project], words)
    return status


def compiled(name: str, source: list[str], words: list[str], stdin: str | None = None) -> int:
    """Writes one file of pins; the exit status of the compiler."""
    command = [str(UV), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
    command += ["--no-emit-index-url", "--no-emit-find-links", "--custom-compile-command", "make requirements"]
    command += [*words, "--output-file", f"requirements/{name}", *source]
    return subprocess.run(command, cwd=ROOT, input=stdin, text=True, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
