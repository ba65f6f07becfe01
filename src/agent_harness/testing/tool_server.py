"""A program that serves tools of the Model Context Protocol over standard input and output."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["write_tool_server"]

PROGRAM = """\
#!{python}
import json, os, pathlib, sys

{answer}

def result_of(asked):
    if asked["method"] == "initialize":
        told = {{"name": "tools", "version": "1"}}
        version = asked["params"]["protocolVersion"]
        return {{"protocolVersion": version, "capabilities": {{"tools": {{}}}}, "serverInfo": told}}
    if asked["method"] == "tools/list":
        return {{"tools": json.loads({tools!r})}}
    if asked["method"] == "tools/call":
        text = answer(asked["params"]["name"], asked["params"].get("arguments") or {{}})
        return {{"content": [{{"type": "text", "text": text}}]}}
    return None

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = result_of(asked)
    said = {{"error": {{"code": -32601, "message": "no"}}}} if result is None else {{"result": result}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **said}}), flush=True)
"""


def write_tool_server(path: Path, tools: Mapping[str, Sequence[str]], answer: str) -> Path:
    """Writes the program, which can be started by its path: tools by their names, each with the texts that it takes.

    ``answer`` is the Python text of ``def answer(name, given)``, which returns the text that a call gives; ``json``,
    ``os``, ``pathlib`` and ``sys`` are imported.
    """
    listed = [
        {
            "name": name,
            "description": name,
            "inputSchema": {"type": "object", "properties": {each: {"type": "string"} for each in texts}},
        }
        for name, texts in tools.items()
    ]
    path.write_text(PROGRAM.format(python=sys.executable, answer=answer.strip(), tools=json.dumps(listed)))
    path.chmod(0o755)
    return path
