"""Marks of a person: ``override`` (skip, mark, reset); ``manual_verification`` (features that wait for one)."""
