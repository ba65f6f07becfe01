"""Parallel runs of feature projects: the port for ``agent_harness.parallel``, and the jobs of its workers."""
