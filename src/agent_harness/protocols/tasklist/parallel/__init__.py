"""Task lists with several concurrent agents: the interface for ``agent_harness.parallel``, and the start of such a run.

The code that a worker runs in a workspace is in ``job.py`` in this folder. Jobs refer to this module by name."""
