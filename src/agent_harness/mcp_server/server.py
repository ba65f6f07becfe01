"""Speaks MCP on stdin and stdout; the tools themselves are in ``tools``."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from agent_harness import __version__
from agent_harness.mcp_server.tools import CallFailed, ClientTools
from agent_harness.protocols.tasklist.api import CATEGORIES

INSTRUCTIONS = """\
A task list that is worked down until each task is proven. claim a task, work on it, checkpoint each larger step, and
complete it: the harness runs the validation itself, and only its result counts. Every answer names the next command.\
"""

if TYPE_CHECKING:
    Category = str
else:
    Category = Literal[CATEGORIES]  # the words become part of the tool's schema


def serve(folder: str | None) -> None:
    """Serves one client until it closes its input."""
    made(ClientTools(folder)).run("stdio")


def made(tools: ClientTools) -> MCPServer:
    """The server with its tools; their schemas come from these signatures, their descriptions from these texts."""
    server = MCPServer("harness", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR")

    @server.tool(structured_output=False)
    def status() -> str:
        """Where the work stands, and what comes next. Changes nothing."""
        return _call(tools.status)

    @server.tool(structured_output=False)
    def next() -> str:  # noqa: A001
        """What claim would take. Changes nothing."""
        return _call(tools.next)

    @server.tool(structured_output=False)
    def claim(task_id: str | None = None) -> str:
        """Take the next task, or say which one you hold already."""
        return _call(lambda: tools.claim(task_id))

    @server.tool(structured_output=False)
    def checkpoint(task_id: str, step: int, total: int, text: str) -> str:
        """Record that step N of M of your task is done, and hold on to it."""
        return _call(lambda: tools.checkpoint(task_id, step, total, text))

    @server.tool(structured_output=False)
    def validate(task_id: str) -> str:
        """Run what proves your task. Changes nothing else."""
        return _call(lambda: tools.validate(task_id))

    @server.tool(structured_output=False)
    def complete(task_id: str, message: str | None = None) -> str:
        """Prove your task, commit the work and close it. When the proof fails, the task is still yours."""
        return _call(lambda: tools.complete(task_id, message))

    @server.tool(structured_output=False)
    def fail(task_id: str, category: Category, message: str) -> str:
        """Give up this attempt at your task; the work is kept in a rescue."""
        return _call(lambda: tools.fail(task_id, category, message))

    @server.tool(structured_output=False)
    def release(task_id: str, why: str) -> str:
        """Give your task back untried; the work is kept in a rescue."""
        return _call(lambda: tools.release(task_id, why))

    @server.tool(structured_output=False)
    def log_query(text: str = "", limit: int = 20) -> str:
        """The newest rows of the log in which every word occurs."""
        return _call(lambda: tools.log_query(text, limit))

    return server


def _call(act: Callable[[], str]) -> str:
    try:
        return act()
    except CallFailed as error:
        raise ToolError(str(error)) from None
