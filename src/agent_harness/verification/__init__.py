"""Verification of a candidate commit in a separate checkout, to decide whether the work really passes. ``judge`` is
the entry point, ``guard`` has the rules on protected files. Source: ``docs/verification.md``."""
