"""Kinds of work of a feature project for the session engine: a feature, a cleanup, a plan."""
