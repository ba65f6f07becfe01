"""The command ``harness mcp``."""

import click

INSTALL = "pip install 'agent-harness[mcp]'"


@click.command(
    short_help="Serve the verbs to a client over MCP.",
    epilog="""\b
Examples:
  claude mcp add harness -- harness mcp
  codex mcp add harness -- harness mcp""",
)
@click.option("--root", metavar="DIR", help="Where the project is; else looked for upwards from the working directory.")
def mcp(root: str | None) -> int:
    """Serve status, next, claim, checkpoint, validate, complete, fail, release and log_query on stdin and stdout.

    Started by a client; it ends when the client closes its input.
    """
    from importlib.util import find_spec

    from agent_harness.errors import ToolMissing

    if find_spec("mcp") is None:
        raise ToolMissing("harness mcp needs an extra that is not installed", hint=INSTALL)
    from agent_harness.mcp_server import server

    server.serve(root)
    return 0
