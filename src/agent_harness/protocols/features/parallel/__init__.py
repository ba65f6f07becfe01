"""Feature projects with several agents at once: the port for ``agent_harness.parallel``, and what its workers do."""
