"""Tests of a check's sensitivity: the check is run with changed expected values, and on deliberately broken work."""
