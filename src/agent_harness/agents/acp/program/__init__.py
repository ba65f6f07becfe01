"""The program that talks to an agent over the Agent Client Protocol, one turn at a time, spoken to over the bridge.

``client`` is what the agent can ask of us, ``updates`` turns what it tells into our events, ``__main__`` is the turn.
"""
