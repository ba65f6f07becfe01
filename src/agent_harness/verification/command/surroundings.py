"""What is installed around a plain command: where it may run tests, whatever the command makes of that."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from agent_harness.verification.check import parse
from agent_harness.verification.command.parsing import simple_commands
from agent_harness.verification.runner.environment import ALWAYS, own_environments, plain_variables, released
from agent_harness.verification.runner.first_look import FirstLook
from agent_harness.verification.runner.installed import Installed
from agent_harness.verification.runner.installed_changes import Differences
from agent_harness.verification.runner.installed_record import InstalledRecord
from agent_harness.verification.runner.interpreters import Interpreters

__all__ = ["Differences", "FirstLook", "InstalledRecord", "around", "released", "stands_alone"]

_PLAIN = re.compile(r"[\w./,:=@%+\-! &\[\]]+", re.ASCII)
_OF_SHELL = frozenset({"test", "[", "true", "false"})  # in every shell


def around(commands: Iterable[tuple[str, str]], *, in_place: bool) -> Installed:
    """Where to look for these commands, and nothing yet of what is there: programs, and interpreters they may start.

    These are the ones that the commands name, those of environments in their folders, and those of the PATH.
    """
    interpreters = Interpreters(plain_variables())
    texts = [(text, Path(folder).absolute()) for text, folder in commands]
    folders = list(dict.fromkeys(folder for _, folder in texts))
    asked = {(each.head, folder): each for text, folder in texts if (each := parse(text)).words}
    asked |= {((name,), folder): parse(name) for name in ("python", "python3") for folder in folders[:1]}
    found = [interpreters.behind(each, folder) for (_, folder), each in asked.items()]
    found += [each for folder in folders for each in own_environments(folder, interpreters)]
    programs = [each.words[0] for text, _ in texts for each in simple_commands(text)]
    named = (*ALWAYS, *(word for word in programs if word.replace("-", "_").isidentifier()))
    return Installed(
        interpreters=tuple(dict.fromkeys(filter(None, found))),
        programs=tuple(dict.fromkeys(named)),
        search=interpreters.variables["PATH"],
        above=os.fspath(folders[0]) if in_place and folders else "",
    )


def stands_alone(command: str) -> bool:
    """Whether the shell does all that a command says by itself, so that nothing that is installed has a part in it.

    Only what is read with certainty: such as ``test -s out.txt && ! test -e old.txt``, with nothing for the shell to
    expand, and no program.
    """
    parts = command.split("&&") if _PLAIN.fullmatch(command) else [""]
    words = [each.split()[each.split()[:1] == ["!"] :] for each in parts]
    return all(each and each[0] in _OF_SHELL and "&" not in "".join(each) for each in words)
