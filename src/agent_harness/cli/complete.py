"""``harness __complete WHAT``: prints values that shell completion cannot know in advance, one per line.

    items      ids of features or tasks
    options    answers to the pending questions
    agents     kinds of agents

To be fast, the command reads state files as JSON and imports little else. It prints nothing if no values are known."""

AGENTS = ("claude-code", "codex", "api", "acp:", "command:", "scripted:")


def main(words: list[str]) -> int:
    """Print completions for a command line. Always return 0, because a shell waits for the output."""
    what = words[1] if len(words) > 1 else ""
    found = AGENTS if what == "agents" else _known(what)
    print("".join(f"{each}\n" for each in found if _is_one_word(each)), end="")
    return 0


def _is_one_word(value: str) -> bool:
    """Return True if every shell and command reads the value as one plain word."""
    # an agent may have chosen the value, and users run completed commands without checking them
    return not value.startswith("-") and all(each.isalnum() or each in "._:/@+,=-" for each in value)


def _known(what: str) -> "list[str]":
    import json
    import os

    from agent_harness.kernel import root

    found = root.find(pin=False)
    if found is None or found.kind == "longtask":
        return []
    name, state = (
        ("features.json", ".harness/session_state.json") if found.kind == "features" else ("harness-tasks.json", "")
    )
    try:
        with open(os.path.join(found.path, state if what == "options" else name), encoding="utf-8") as file:
            raw = json.load(file)
        if what == "options":
            asked = [raw.get("pending_escalation"), *(raw.get("kept_candidates") or [])]
            return [str(word) for each in asked if isinstance(each, dict) for word in each.get("options") or []]
        rows = raw["features" if found.kind == "features" else "tasks"]
        return [str(each["id"]) for each in rows if isinstance(each, dict) and "id" in each]
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
