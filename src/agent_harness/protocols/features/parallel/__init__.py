"""Parallel runs of feature projects: the port that ``agent_harness.parallel`` uses, and the jobs of its workers."""
