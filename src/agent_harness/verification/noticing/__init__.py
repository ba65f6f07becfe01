"""Tests of a check's sensitivity. The check runs with changed expected values and on deliberately broken work."""
