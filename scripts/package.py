"""Builds the wheel from a copy of the files that git has, or would take, by the pinned backend and with no network.

``python scripts/package.py FOLDER`` leaves it in ``FOLDER`` and prints its path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("src", "man", "pyproject.toml", "README.md", "LICENSE")
"""What a package is built from."""


def tracked(*under: str) -> list[str]:
    """Files below the given places that git has, or would take."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *under]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in set(listing.split("\0")) if name and (ROOT / name).is_file())


def copied(tree: Path) -> Path:
    """A folder with the files that a package is built from."""
    for name in tracked(*SOURCES):
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    return tree


def built(folder: Path) -> Path:
    """The wheel, in ``folder``, beside the copy that it was built from; ``CalledProcessError`` when that fails."""
    copied(folder / "tree")
    made = subprocess.run(
        [sys.executable, "-c", "import uv_build; print(uv_build.build_wheel('..'))"],
        cwd=folder / "tree",
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return folder / made.stdout.split()[-1]


if __name__ == "__main__":
    print(built(Path(sys.argv[1])))
