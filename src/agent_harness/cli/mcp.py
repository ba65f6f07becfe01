"""The command ``harness mcp``; read without click, since a client waits for the first answer."""

from __future__ import annotations

from agent_harness.cli.tasks import STYLE
from agent_harness.cli.verbs.options import HelpAsked, Option, Program, Subcommand
from agent_harness.errors import HarnessError

__all__ = ["main"]

PROGRAM = Program(
    "harness",
    "",
    {
        "mcp": Subcommand(
            "Serve the verbs to a client over MCP.",
            Option("--root", "DIR", "Where the project is; else looked for upwards from the working directory."),
            purpose="Serve status, next, claim, checkpoint, validate, complete, fail, release and log_query on stdin"
            " and stdout. Started by a client; it ends when the client closes its input, after the calls that run.\n\n"
            "A client that runs without a person must be allowed the tools beforehand: `claude -p` by"
            ' --allowedTools mcp__harness, `codex exec` by default_tools_approval_mode = "approve" in the server\'s'
            " section of config.toml.",
            example="claude mcp add harness -- harness mcp",
        )
    },
    STYLE,
)


def main(words: list[str]) -> int:
    """Runs a command line that begins with ``mcp``; an exit code of ``docs/exit-codes.md``, never a traceback."""
    try:
        root = PROGRAM.parse("mcp", words[1:]).get("root")
    except HelpAsked:
        from agent_harness.cli.verbs import usage

        print(usage.usage(PROGRAM, "mcp"), end="")
        return 0
    except HarnessError as error:
        from agent_harness.cli import failure

        return failure.show(error, as_json=False)
    from agent_harness import mcp_server

    try:
        mcp_server.serve(None if root is None else str(root))
    except KeyboardInterrupt:
        return 130
    return 0
