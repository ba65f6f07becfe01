"""Task lists worked by several agents at once: the port of ``agent_harness.parallel``, and how such a run begins.

What hands do in a workspace is in ``protocols/tasklist/hands.py``: orders that are under way name that module.
"""
