"""``harness mcp``: the verbs as tools of an MCP server on stdio, over the same methods of the front doors.

``tools`` says what each tool does and holds no protocol of its own; ``server`` speaks MCP and needs the extra ``mcp``.
"""
