"""Sessions on record: a cassette holds what an agent said and what it changed, and the replay agent plays it again.

``cassette`` is the format, ``changes`` what happened to files, ``agent`` the adapter behind ``replay:FILE``. The
recorder stands in ``supervision``, which hears every agent.
"""

from agent_harness.agents.replay.agent import ReplayAgent

__all__ = ["ReplayAgent"]
