"""Task lists with several concurrent agents: the port for ``agent_harness.parallel``, and the start of such a run.

A worker's code for a workspace is in ``protocols/tasklist/parallel/job.py``, because running jobs refer to that module
by name.
"""
