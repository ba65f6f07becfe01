"""``python -m agent_harness.agents.scripted [--check] FILE``: plays one turn of a script, or only validates the script.

The program reads the prompt from stdin and other facts about the turn from ``HARNESS_*`` variables. If the script sets
an exit status, the program exits with it. Otherwise the exit status is 0 at the script's end, 1 if a step fails, 2 for
an invalid script, and 3 if no entry fits the turn."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from agent_harness.agents.scripted.script import Occasion, Script, ScriptError, choose, load
from agent_harness.agents.scripted.stage import CannotPlay, Memory, Stage, TurnEnds, play

USAGE = "usage: python -m agent_harness.agents.scripted [--check] FILE"


def main(words: list[str], environ: Mapping[str, str]) -> int:
    files = [word for word in words if word != "--check"]
    if len(files) != 1 or files[0].startswith("-"):
        _complain(USAGE)
        return 2
    try:
        script = load(Path(files[0]))
    except ScriptError as error:
        for problem in error.problems:
            _complain(problem)
        return 2
    if "--check" in words:
        sys.stdout.write(f"{script.path}: {len(script.entries)} turns, no problem\n")
        return 0
    return _play(script, environ)


def _play(script: Script, environ: Mapping[str, str]) -> int:
    project = Path(environ.get("HARNESS_PROJECT_DIR") or Path.cwd())
    memory = Memory.open(project, script.path)
    occasion = _occasion(environ, memory)
    stage = Stage(script.options, occasion, project, script.path.resolve().parent)
    entry = choose(script, occasion, memory.uses)
    if entry is None:
        return _nothing_left(stage, script)
    memory.use(entry.key)
    try:
        for number, step in enumerate(entry.steps):
            try:
                play(stage, step)
            except CannotPlay as error:
                _complain(f"{script.path}: entry {entry.key}, step {number}: {error}")
                return 1
    except TurnEnds as end:
        return end.status
    return 0


def _occasion(environ: Mapping[str, str], memory: Memory) -> Occasion:
    feature = _number(environ.get("HARNESS_FEATURE_ID"))
    session = _number(environ.get("HARNESS_SESSION")) or 0
    return Occasion(
        prompt_type=environ.get("HARNESS_PROMPT_TYPE", "coding"),
        feature=feature,
        task=environ.get("HARNESS_TASK_ID"),
        session=session,
        round=_number(environ.get("HARNESS_ROUND")) or 0,
        attempt=memory.attempt(feature, session),
        prompt=sys.stdin.buffer.read().decode("utf-8", "replace"),
    )


def _nothing_left(stage: Stage, script: Script) -> int:
    """Report that the script has no entry for this turn. Return the program's exit status."""
    # normal after a failed check, otherwise an error
    if stage.occasion.round > 0:
        stage.text("I have nothing more to try.")
        return 0
    _complain(f"{script.path}: no entry is left for {stage.occasion}")
    return 3


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _complain(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:], os.environ))
    except BrokenPipeError:  # the harness does not read any more
        os._exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
