"""The kinds of work that a session does: ``feature``, ``cleanup``, ``plan`` (the record of a planning agent)."""
