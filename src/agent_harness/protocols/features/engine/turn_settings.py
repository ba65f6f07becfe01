"""What the settings hand to every turn of an agent: its model, the rules for its tools, what is left to spend.

Source: features.md UAH-206..216, UAH-242, UAH-446, C30.
"""

from dataclasses import replace

from agent_harness.agents.base import Brief, McpServer, ToolRules
from agent_harness.protocols.features import costs
from agent_harness.protocols.features.project import Project


def handed(project: Project, brief: Brief) -> Brief:
    """The brief with what it is handed now; the budget is the least that session, feature and project leave."""
    return replace(
        brief,
        model=project.config.models.for_prompt(brief.prompt_type),
        model_chosen=any(
            project.config.origin(f"models.{name}") != "default" for name in ("default", brief.prompt_type)
        ),
        tools=tool_rules(project),
        budget_usd=costs.available(project.store.costs(), project.budgets, brief.feature_id),
    )


def tool_rules(project: Project) -> ToolRules:
    """The settings' ``tools:``, with the MCP servers that are switched on."""
    tools = project.config.tools
    return ToolRules(
        filesystem_enabled=tools.filesystem.enabled,
        allowed_paths=tuple(tools.filesystem.allowed_paths),
        denied_paths=tuple(dict.fromkeys((*tools.filesystem.denied_paths, f"{project.state_name}/"))),
        shell_enabled=tools.shell.enabled,
        shell_timeout_seconds=tools.shell.timeout_seconds,
        denied_commands=tuple(tools.shell.denied_commands),
        mcp_servers={
            name: McpServer(command=(server.command, *server.args), config=dict(server.config))
            for name, server in tools.mcp_servers.items()
            if server.enabled and server.command
        },
    )
