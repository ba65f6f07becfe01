"""Kinds of work of an agent in a feature project: a feature, a cleanup, a plan. And undo of accepted work."""
