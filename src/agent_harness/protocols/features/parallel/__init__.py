"""Feature projects with several agents at once: the port for ``agent_harness.parallel``, and the work of its workers.
"""
