"""Agents that run as programs of ours: ``host`` is the harness's end of the bridge, ``worker`` the program's.

``host`` has the lines that go over it.
"""
