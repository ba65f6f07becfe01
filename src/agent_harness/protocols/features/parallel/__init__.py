"""Feature projects worked by several agents at once: the port of ``agent_harness.parallel``, and what its hands do."""
