"""Kinds of work of a feature project for the session runner: a feature, a cleanup, a plan."""
