"""Feature projects with several agents: the port for ``agent_harness.parallel``, and the work of its workers."""
