"""Tests of a check's sensitivity: the check runs with changed expected values, and on deliberately broken work."""
