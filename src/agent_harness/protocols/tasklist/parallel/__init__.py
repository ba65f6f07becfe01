"""Task lists worked by several agents at once: the port of ``agent_harness.parallel``, and how such a run begins.

What workers do in a workspace is in ``protocols/tasklist/parallel/job.py``: jobs that are under way name that module.
"""
