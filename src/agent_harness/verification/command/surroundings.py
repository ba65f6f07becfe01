"""What is installed around a plain command: where it may run tests, whatever the command makes of that."""

import os
from collections.abc import Iterable
from pathlib import Path

from agent_harness.verification.check import parse
from agent_harness.verification.command.parsing import simple_commands
from agent_harness.verification.runner.environment import ALWAYS, own_environments, plain_variables, released
from agent_harness.verification.runner.installed import Installed, look
from agent_harness.verification.runner.installed_changes import Differences
from agent_harness.verification.runner.installed_record import InstalledRecord
from agent_harness.verification.runner.interpreters import Interpreters

__all__ = ["Differences", "InstalledRecord", "around", "released"]


def around(commands: Iterable[tuple[str, str]], *, in_place: bool) -> Installed:
    """What is installed for these commands, each with its folder: programs, and the interpreters that they may start.

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
    return look(
        filter(None, found),
        [*ALWAYS, *(word for word in programs if word.replace("-", "_").isidentifier())],
        search=interpreters.variables["PATH"],
        above=os.fspath(folders[0]) if in_place and folders else "",
    )
