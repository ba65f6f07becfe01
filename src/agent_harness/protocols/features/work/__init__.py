"""Kinds of work that the session runner does in a feature project: a feature, a cleanup, a plan."""
