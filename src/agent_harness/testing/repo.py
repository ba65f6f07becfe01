r"""Real git repositories for tests, created in one or two lines.

    repo = Repo(tmp_path).write("app.py", "print(1)\n").commit("First").write("app.py", "print(2)\n")
    repo.git("status", "--short")

Every method that changes something returns the repository itself, so that calls can be chained. Unless
``user_settings`` is set, git ignores the settings of the person who runs the tests. Commits have a fixed name, address
and date. If ``environ`` is given, git gets only these environment variables, which then determine its settings and
dates. Paths are relative to the top of the work tree. File names that are not UTF-8 have the form of
``os.fsdecode``."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Self

__all__ = ["Repo"]

PERSON = "Test Person"
ADDRESS = "person@localhost"
FIRST_MOMENT = 1_767_225_600
_KNOWN: dict[tuple[object, ...], dict[str, bytes | None]] = {}
"""Cache of repositories by their files: the paths in the repository with their contents; ``None`` for a folder."""


class Repo:
    """Git repository for tests. If it does not exist, it is created."""

    # with init=False, nothing is created

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        user_settings: bool = False,
        environ: Mapping[str, str] | None = None,
        init: bool = True,
    ) -> None:
        self.path = Path(path)
        self._user_settings = user_settings
        self._environ = environ
        self._commits = 0
        if init:
            self.path.mkdir(parents=True, exist_ok=True)
        if init and not (self.path / ".git").exists():
            self.git("init", "--quiet", "--initial-branch=main")

    @classmethod
    def with_files(
        cls,
        path: str | os.PathLike[str],
        files: Mapping[str, str],
        *,
        message: str = "First",
        user_settings: bool = False,
    ) -> Self:
        """Create a repository with one commit of ``files``."""
        # built once per process; later calls copy it
        key = (message, *sorted(files.items()))
        if key not in _KNOWN:
            with tempfile.TemporaryDirectory() as folder:
                made = cls(folder)
                for name, text in files.items():
                    made.write(name, text)
                made.commit(message)
                shutil.rmtree(made.path / ".git/hooks", ignore_errors=True)
                # by path; None for a folder, which comes before its files
                found = ((each.relative_to(made.path), each) for each in sorted(made.path.rglob("*")))
                _KNOWN[key] = {str(name): None if each.is_dir() else each.read_bytes() for name, each in found}
        Path(path).mkdir(parents=True, exist_ok=True)
        for name, content in _KNOWN[key].items():
            place = Path(path, name)
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
            else:
                place.write_bytes(content)
        made = cls(path, user_settings=user_settings)
        made._commits = 1
        return made

    # ---- git ---------------------------------------------------------------------------------------------------

    def git(self, *words: str, input: bytes | None = None, check: bool = True) -> str:  # noqa: A002
        """Run git. Return its output without white space at either end."""
        return os.fsdecode(self.git_bytes(*words, input=input, check=check)).strip()

    def git_bytes(self, *words: str, input: bytes | None = None, check: bool = True) -> bytes:  # noqa: A002
        """Run git. Return its output unchanged."""
        done = subprocess.run(
            ["git", *words], cwd=self.path, env=self._environment(), input=input, capture_output=True, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(words)}: {os.fsdecode(done.stderr).strip()}")
        return done.stdout

    def _environment(self) -> Mapping[str, str]:
        if self._environ is not None:
            return self._environ
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        date = f"{FIRST_MOMENT + 60 * self._commits} +0000"
        for who in ("AUTHOR", "COMMITTER"):
            kept |= {f"GIT_{who}_NAME": PERSON, f"GIT_{who}_EMAIL": ADDRESS, f"GIT_{who}_DATE": date}
        own = {} if self._user_settings else {"GIT_CONFIG_GLOBAL": os.devnull}
        return {**kept, **own, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}

    def config(self, key: str, value: str) -> Self:
        self.git("config", "--local", key, value)
        return self

    def stage(self, *paths: str) -> Self:
        self.git("add", *(("--", *paths) if paths else ("--all",)))
        return self

    def commit(self, message: str = "A commit", *, stage: bool = True) -> Self:
        """Create a commit, even without changes."""
        if stage:
            self.stage()
        self._commits += 1
        self.git("commit", "--quiet", "--no-verify", "--allow-empty", f"--message={message}")
        return self

    def branch(self, name: str) -> Self:
        self.git("checkout", "--quiet", "-b", name)
        return self

    def remote(self, path: str | os.PathLike[str]) -> Self:
        """Create a bare repository as the remote ``origin``, and push the branch to it."""
        subprocess.run(["git", "init", "--quiet", "--bare", os.fspath(path)], env=self._environment(), check=True)
        self.git("remote", "add", "origin", os.fspath(path))
        self.git("push", "--quiet", "--set-upstream", "origin", "HEAD")
        return self

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def status(self) -> list[str]:
        """Return the lines of ``git status --short``. List each untracked file separately."""
        listed = self.git_bytes("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
        return [os.fsdecode(line) for line in listed.split(b"\0") if line]

    # ---- files -------------------------------------------------------------------------------------------------

    def write(self, path: str, content: str | bytes = "", *, executable: bool = False) -> Self:
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        file.chmod(0o755 if executable else 0o644)
        return self

    def append(self, path: str, content: str | bytes) -> Self:
        return self.write(path, self.read(path) + (content.encode() if isinstance(content, str) else content))

    def read(self, path: str) -> bytes:
        return (self.path / path).read_bytes()

    def remove(self, *paths: str) -> Self:
        for path in paths:
            (self.path / path).unlink()
        return self

    def move(self, old: str, new: str) -> Self:
        """Rename a file only in the work tree. The index keeps the old name."""
        (self.path / new).parent.mkdir(parents=True, exist_ok=True)
        (self.path / old).rename(self.path / new)
        return self

    def link(self, path: str, target: str) -> Self:
        """Create a symbolic link. Its target may be missing."""
        file = self.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(target)
        return self

    def ignore(self, *patterns: str) -> Self:
        file = self.path / ".gitignore"
        text = file.read_text() if file.exists() else ""
        return self.write(".gitignore", text + "".join(f"{pattern}\n" for pattern in patterns))

    def files(self) -> dict[str, bytes]:
        """Return the content of every file outside ``.git``, by path."""
        found = {}
        for folder, folders, names in os.walk(self.path):
            if ".git" in folders:
                folders.remove(".git")
            for name in (*names, *folders):
                path = Path(folder) / name
                if path.is_symlink():
                    found[os.path.relpath(path, self.path)] = b"link to " + os.fsencode(path.readlink())
                elif path.is_file():
                    found[os.path.relpath(path, self.path)] = path.read_bytes()
        found.pop(".git", None)
        return found
