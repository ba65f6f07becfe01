"""The loop of the api agent: a program of ours that asks a model, runs the tools it asks for, and asks again.

``python -m agent_harness.agents.api.program`` is started by ``agents/api/__init__.py`` and spoken to over the bridge.

    __main__     one turn, from the brief to its end
    loop         asking and answering, what a failed request means; steering reaches the very next request
    tools        the tools of the loop: a shell, and files
    servers      the tools of MCP servers
"""
