"""A program that speaks like ``codex``, for tests of the adapter's messages and of its use of the answers.

``python codex_peer.py PLAY app-server``. PLAY is a JSON file: ``no_server``, ``lost`` (threads that are not known),
``sandbox`` (the exit code of the trial), ``steps`` for the turn, ``earlier`` (lines said after a thread was
resumed), ``exec`` (lines of ``codex exec``), ``log`` (the file for every message that comes).
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

play: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
log = Path(play["log"])


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    with log.open("a") as file:
        file.write(line)
    heard: dict[str, Any] = json.loads(line)
    return heard


def take_turn() -> None:
    """Play the steps: a message is sent, ``{"hear": METHOD}`` waits for a message or the answer to a request."""
    for step in play.get("steps", []):
        if "hear" not in step:
            say(step)
            continue
        while True:
            heard = hear()
            if "method" in heard and "id" in heard:
                say({"id": heard["id"], "result": step.get("result", {})})
            if heard.get("method", "answer") == step["hear"]:
                break


def result_of(heard: dict[str, Any]) -> dict[str, Any]:
    method, params = heard["method"], heard.get("params", {})
    if method == "thread/resume" and params["threadId"] in play.get("lost", []):
        return {"error": {"code": -32600, "message": "no rollout found"}}
    if method in ("thread/start", "thread/resume"):
        thread = {"id": params.get("threadId", "thread-1"), "path": play.get("path")}
        return {"result": {"thread": thread, "model": "gpt-5.5"}}
    if method == "command/exec":
        code = play.get("sandbox", 0)
        return {"result": {"exitCode": code, "stderr": "bwrap: No permissions\n" if code else ""}}
    return {"result": {"turn": {"id": "turn-1"}} if method == "turn/start" else {}}


def servers_say(words: list[str]) -> dict[str, str]:
    """Start the MCP servers of a command line as the client does, and return the output of each."""
    settings = dict(word.split("=", 1) for word in words if word.startswith("mcp_servers."))
    names = {key.split(".")[1] for key in settings}
    lines = {
        name: [json.loads(settings[f"mcp_servers.{name}.command"]), *json.loads(settings[f"mcp_servers.{name}.args"])]
        for name in names
    }
    return {
        name: subprocess.run(line, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}).stdout
        for name, line in lines.items()
    }


def main() -> None:
    if "exec" in sys.argv:
        told = {"words": sys.argv[2:], "prompt": sys.stdin.read(), "servers": servers_say(sys.argv)}
        log.write_text(json.dumps(told) + "\n")
        for line in play["exec"]:
            say(line)
        sys.exit(play.get("exit", 0))
    if play.get("no_server"):
        sys.exit("error: unrecognized subcommand 'app-server'")
    while True:
        heard = hear()
        if "id" in heard:
            say({"id": heard["id"], **result_of(heard)})
        for line in play.get("earlier", []) if heard.get("method") == "thread/resume" else []:
            say(line)
        if heard.get("method") == "turn/start":
            take_turn()
            if play.get("dies"):
                sys.exit(3)
            if play.get("hangs"):
                time.sleep(3600)


main()
