"""The program that talks to an agent over the Agent Client Protocol, one turn at a time, spoken to over the bridge.

``client`` answers what the agent asks of us and turns what it tells into our events; ``__main__`` is the turn.
"""
