"""Claude Code as the harness meets it, without a model: print mode in lines of JSON, one tool, one result.

What it understands and says is what Claude Code 2.1 does when it is started as ``agents/claude_code`` starts it, as the
tests of the real client (`make test-clients`) see it. An option that it does not know ends it.
"""

import argparse
import json
import subprocess
import sys
import uuid
from typing import Any

COMMAND = "echo 'print(\"hello\")' > hello.py"
USED = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def main() -> int:
    """One run, as its command line says."""
    if sys.argv[1:] == ["--version"]:
        print("2.1.330 (Claude Code)")
    elif sys.argv[1:] == ["auth", "status"]:
        print('{"loggedIn": true}')
    else:
        answer(options())
    return 0


def options() -> argparse.Namespace:
    """The options of an unattended run."""
    parser = argparse.ArgumentParser()
    for flag in ("-p", "--verbose", "--replay-user-messages", "--include-partial-messages", "--strict-mcp-config"):
        parser.add_argument(flag, action="store_true", required=True)
    for name in ("--input-format", "--output-format"):
        parser.add_argument(name, choices=["stream-json"], required=True)
    for name in ("--permission-mode", "--session-id", "--settings"):
        parser.add_argument(name, required=True)
    for name in ("--allowedTools", "--disallowedTools", "--model", "--max-budget-usd", "--mcp-config"):
        parser.add_argument(name)
    return parser.parse_args()


def answer(given: argparse.Namespace) -> None:
    """Hears the prompt, uses the shell once if the guard rails let it, and says that all is done."""

    def say(kind: str, **members: object) -> None:
        print(json.dumps({"type": kind, **members, "session_id": given.session_id}), flush=True)

    def model(name: str, *blocks: object) -> None:
        message = {"id": name, "role": "assistant", "model": "stand-in", "content": blocks, "usage": USED}
        say("assistant", message=message, parent_tool_use_id=None)

    prompt = json.loads(sys.stdin.readline())["message"]
    say("system", subtype="init", tools=["Bash"], model="stand-in", permissionMode=given.permission_mode)
    say("user", message=prompt, isReplay=True, parent_tool_use_id=None)
    call = {"type": "tool_use", "id": str(uuid.uuid4()), "name": "Bash", "input": {"command": COMMAND}}
    model("first", call)
    done = used(json.loads(given.settings)["hooks"]["PreToolUse"], call)
    result = {
        "type": "tool_result",
        "tool_use_id": call["id"],
        "content": done.stdout,
        "is_error": done.returncode != 0,
    }
    say("user", message={"role": "user", "content": [result]}, parent_tool_use_id=None)
    model("second", {"type": "text", "text": "All is done."})
    say("result", subtype="success", is_error=False, result="All is done.", num_turns=2, usage=USED, modelUsage={})
    sys.stdin.read()


def used(hooks: list[dict[str, Any]], call: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """What the tool gave, or the first hook that refuses it by its exit status."""
    asked = json.dumps({"hook_event_name": "PreToolUse", "tool_name": call["name"], "tool_input": call["input"]})
    for each in (hook for matched in hooks for hook in matched["hooks"]):
        said = subprocess.run(each["command"], shell=True, input=asked, capture_output=True, text=True, check=False)
        if said.returncode == 2:
            return said
    return subprocess.run(COMMAND, shell=True, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    sys.exit(main())
