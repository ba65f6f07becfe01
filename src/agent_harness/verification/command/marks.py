"""Run of a check without marks.
A mark is a trace, such as a variable set by make or npm. From a mark, code can tell which program started the check."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

from agent_harness.verification.case import Case
from agent_harness.verification.changes import tree_at
from agent_harness.verification.runner_config import is_test_file

MARKING = re.compile(r"\b(?:make|npm|npx|yarn|node|python[\d.]*)\b")
"""Programs that leave a mark, such as a variable, in each process that they start."""
_OF_MARK = re.compile(
    rb"\b(?:MAKE(?:LEVEL|FLAGS)|MFLAGS|npm_\w+|environ|getenv|process\.env|ENV|\w*argv|modules|unittest)\b"
)
_IN_USE = re.compile(rb"MAKELEVEL|MAKEFLAGS|npm_(?:package|config)|argv\[0\]|orig_argv")  # of honest programs
_OWN_SHELL = re.compile(r"(?m)^\s*(?:export\s+|override\s+)*SHELL\s*[:?+]{0,3}=")
_UNMARKED = Path(__file__).with_name("unmarked")
_SHELL = """#!/bin/sh
case "$2" in make | *make\\ * | *npm\\ * | *npx\\ * | *yarn\\ *) exec /bin/sh "$@" ;; esac
for name in $(env | sed -n 's/^\\(npm_[A-Za-z0-9_]*\\)=.*/\\1/p'); do unset "$name"; done
unset MAKELEVEL MAKEFLAGS MFLAGS MAKE_TERMOUT MAKE_TERMERR INIT_CWD
exec /bin/sh "$@"
"""


def unmarked(
    folder: Path, variables: Mapping[str, str], folder_of_check: Path, checks: Mapping[str, bytes], *, marks: bool
) -> dict[str, str]:
    """Return environment variables that hide from code which program started that code."""
    own = folder / "marks"
    (own / "bin").mkdir(parents=True)
    # with ``marks``, the same programs start but hide nothing
    for name in () if marks else ("sitecustomize.py", "plain.cjs"):
        shutil.copy(_UNMARKED / name, own)
    programs = {own / "sh": _SHELL if not marks else '#!/bin/sh\nexec /bin/sh "$@"\n'}
    path = variables.get("PATH", os.defpath)
    for name in ("python", "python3"):
        if found := shutil.which(name, path=path):
            ours = f"PYTHONPATH={shlex.quote(str(own))}${{PYTHONPATH:+:$PYTHONPATH}}"
            text = f'#!/bin/sh\n{ours} exec {shlex.quote(found)} "$@"\n'
            programs[own / "bin" / name] = text
    for place, text in programs.items():
        place.write_text(text)
        place.chmod(0o755)
    shell = own / "sh"
    keeps_shell = any(_OWN_SHELL.search(content.decode("utf-8", "replace")) for content in checks.values())
    node = f"{variables.get('NODE_OPTIONS', '')} --require={own}/plain.cjs".strip()
    return {
        **({} if keeps_shell else {"MAKEFLAGS": f" -- SHELL={shell}"}),
        "npm_config_script_shell": str(shell),
        "PATH": f"{own}/bin{os.pathsep}{path}",
        **({} if marks else {"NODE_OPTIONS": node}),
        "CHECK_FILES": os.pathsep.join(str(folder_of_check / path) for path in checks),
    }


def is_of_work(case: Case) -> bool:
    """Return True if only the work, not the base commit, tries to detect which program started it."""
    candidate = tree_at(case.git, case.objects, case.candidate)
    changed = [change.path for change in case.changes.files if not is_test_file(change.path)]
    if not any(_OF_MARK.search(candidate.read(path) or b"") for path in changed):
        return False
    return not any(_IN_USE.search(case.tree.read(path) or b"") for path in case.tree.paths)
