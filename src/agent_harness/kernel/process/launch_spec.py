"""What a lifeline is to run: checked here, where an error still reaches a person, and written down for the pipe."""

import os
import stat
from collections.abc import Mapping, Sequence

from agent_harness.errors import Refused, ToolMissing
from agent_harness.kernel.process.orphans import RUN_ID

Path = str | os.PathLike[str]


def write_order(
    command: str | Sequence[str], *, cwd: Path, env: Mapping[str, str], run_id: str, stays: bool = False
) -> bytes:
    """The order in the lifeline's form (``kernel/process/supervisor.py``); a text is a command of ``sh``.

    Raises ``ToolMissing`` when the program cannot be found from ``cwd`` and the ``PATH`` of ``env``, ``Refused`` when
    the folder is missing or a word cannot be handed to a program.
    """
    folder = os.path.abspath(cwd)
    words = ["sh", "-c", command] if isinstance(command, str) else list(command)
    if not words or not words[0]:
        raise Refused("The command is empty.")
    if not os.path.isdir(folder):
        raise Refused(f"The folder {folder} does not exist.", path=folder)
    program = "/bin/sh" if isinstance(command, str) else find_program(words[0], folder, env.get("PATH", os.defpath))
    environment = [f"{name}={value}" for name, value in {**env, RUN_ID: run_id}.items()]
    fields = ["stay" if stays else "", folder, program, str(len(words)), *words, *environment]
    try:
        encoded = [os.fsencode(field) for field in fields]
    except UnicodeEncodeError as error:
        raise Refused("The command or its environment holds a character that no program can be given.") from error
    if any(b"\0" in field for field in encoded):
        raise Refused("The command or its environment holds a NUL character.")
    return b"\0".join(encoded)


def find_program(name: str, folder: str, search_path: str) -> str:
    """The absolute path of the program that ``name`` means to a command in ``folder``; raises ``ToolMissing``."""
    places = [""] if "/" in name else search_path.split(os.pathsep)
    candidates = [os.path.join(folder, place, name) for place in places]
    for candidate in candidates:
        if _is_program(candidate):
            return candidate
    if any(map(os.path.isfile, candidates)):
        raise ToolMissing(f"{name} is not executable.", hint=f"chmod +x {name}", program=name)
    raise ToolMissing(f"The program {name} was not found.", hint="Install it, or put its folder on PATH.", program=name)


def _is_program(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.X_OK)
    except (OSError, ValueError):
        return False
