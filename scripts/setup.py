"""Makes ``.venv`` with everything the project needs, or does nothing when it is up to date.

Needs only the interpreter that runs it (3.11 or newer, with ``venv`` and ``ensurepip``) and the package registry that
pip is set up for. Every package is pinned with its hash in ``requirements/``, also the build backend, and none is
built from source; the project itself is installed last, editable, without a look at its dependencies.
"""

import fcntl
import hashlib
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / ".set-up"
LOCK = ROOT / ".make" / "setup.lock"
REQUIREMENTS = (ROOT / "requirements" / "build.txt", ROOT / "requirements" / "dev.txt")
ON_REQUEST = ("anyio", "hypothesis")
"""Packages whose plugins of pytest are loaded by ``-p`` only: they more than double its start, and tests start it
thousands of times in sample projects that need neither."""
INTERPRETER = Path(getattr(sys, "_base_executable", sys.executable) or sys.executable)
VERSION = ".".join(str(part) for part in sys.version_info[:3])


def main() -> int:
    """0 when ``.venv`` is ready; 1 with one line on stderr when it cannot be made."""
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        key = wanted()
        if is_ready(key):
            return 0
        problem = missing_part() or set_up(key)
    if problem:
        print(f"agent-harness: {problem}", file=sys.stderr)
    return 1 if problem else 0


def wanted() -> str:
    """A digest of all that decides what is in ``.venv``: interpreter, place, pins and this script."""
    files = (*REQUIREMENTS, ROOT / "pyproject.toml", Path(__file__))
    parts = [VERSION, sys.base_prefix, str(ROOT), *(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def is_ready(key: str) -> bool:
    """True when the last set-up came to its end and nothing that decides it has changed since."""
    return PYTHON.exists() and STAMP.is_file() and STAMP.read_text() == key


def missing_part() -> str | None:
    """Why this interpreter cannot make an environment, in one line, or ``None``."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        return (
            f"Python {VERSION} ({INTERPRETER}) comes without {error.name}; install it "
            f"(Debian: apt-get install python3-venv) or name another interpreter: make PYTHON=python3.12 setup"
        )
    return None


def set_up(key: str) -> str | None:
    """Makes the environment and fills it; the first problem in one line, or ``None``."""
    print(f"Setting up .venv with Python {VERSION} (only now, and when the pins change) ...", flush=True)
    began = time.monotonic()
    STAMP.unlink(missing_ok=True)
    if not has_pip() and run(str(INTERPRETER), "-m", "venv", "--clear", str(VENV)):
        return "the environment .venv cannot be made; the lines above say why"
    pip = (str(PYTHON), "-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", "install")
    pins = [word for path in REQUIREMENTS for word in ("-r", str(path))]
    # The pins are all that is needed. Left to look for dependencies, pip finds a version that came out since, of a
    # package that one of them names with an extra, and refuses it for having no pin.
    if run(*pip, "--require-hashes", "--no-deps", "--only-binary=:all:", *pins):
        return "the pinned packages cannot be installed; the lines above say why (is the package registry reachable?)"
    if run(*pip, "--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)):
        return "the project itself cannot be installed into .venv; the lines above say why"
    for package in ON_REQUEST:
        for path in VENV.glob(f"lib/python*/site-packages/{package}-*.dist-info/entry_points.txt"):
            path.write_text(re.sub(r"^\[pytest11\]\n(?:[^\[].*\n?)*", "", path.read_text(), flags=re.MULTILINE))
    STAMP.write_text(key)
    print(f"Ready after {time.monotonic() - began:.0f} s.", flush=True)
    return None


def has_pip() -> bool:
    """True when ``.venv`` is of this interpreter's version and its pip runs."""
    probe = "import sys, pip; print('.'.join(map(str, sys.version_info[:3])), sys.base_prefix)"
    try:
        done = subprocess.run(
            [str(PYTHON), "-c", probe], capture_output=True, text=True, env=environment(), check=False
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == f"{VERSION} {sys.base_prefix}"


def run(*command: str) -> int:
    """The exit status of a command whose output the person sees."""
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


def environment() -> dict[str, str]:
    """The caller's variables without those that send packages, or imports, elsewhere; ``.venv/bin`` comes first."""
    dropped = {"PYTHONHOME", "PYTHONPATH", "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PATH": f"{VENV / 'bin'}{os.pathsep}{kept.get('PATH', os.defpath)}"}


if __name__ == "__main__":
    sys.exit(main())
