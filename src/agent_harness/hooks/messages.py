"""Texts for agents and users in the answers of hooks. Each text is short and has one fact on each line."""

from __future__ import annotations

from agent_harness.protocols.tasklist import selection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.errors import StateDamaged
    from agent_harness.protocols.tasklist.records import State, Task

__all__ = ["cut", "damaged", "halted", "shell_word", "status_line", "task_name"]

TITLE = 200
REASON = 2000


def cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def task_name(task: Task) -> str:
    return f"{cut(' '.join(task.id.split()), TITLE)}: {cut(task.title, TITLE)}"


def status_line(state: State, next_task: Task | None) -> str:
    found = selection.counts(state)
    names = ("completed", "failed", "in_progress", "pending", "total")
    numbers = " ".join(f"{name}={found.get(name, 0)}" for name in names)
    return f"HARNESS: {numbers}" + (f" next={task_name(next_task)}" if next_task else "")


def damaged(error: StateDamaged, *, backup: bool) -> str:
    """Return a message about a damaged state file, with a command that repairs the file."""
    way = (
        "harness-tasks.json.bak is intact. Run `harness task recover` to restore the list; do not edit the file."
        if backup
        else "There is no usable backup. Report this to a person and stop. Do not invent the tasks again."
    )
    what = error.message if "harness-tasks.json" in error.message else f"harness-tasks.json: {error.message}"
    return cut(f"{cut(what, 600)}\n{way}", REASON)


def halted(state: State) -> str:
    found = state.halt or {}
    words = (f"[{found.get('category')}]", found.get("task_id") or "", found.get("message") or "")
    why = " ".join(" ".join(word.split()) for word in words if isinstance(word, str) and word and word != "[None]")
    return f"HARNESS: the task list is halted until a person acts: {cut(why, 600)}. After the fix: `harness resume`."


def shell_word(text: str) -> str:
    plain = text.replace("-", "").replace("_", "").replace(".", "")
    if plain.isascii() and plain.isalnum() and not text.startswith("-"):
        return text
    return "'" + " ".join(text.split()).replace("'", "'\\''") + "'"
