"""Task lists with several agents at once: the port of ``agent_harness.parallel``, and the start of such a run.

The work of a worker in a workspace is in ``protocols/tasklist/parallel/job.py``: running jobs name that module.
"""
