"""Verification of a candidate commit in a separate checkout, to decide whether the work passes.
``judge`` is the entry point. ``guard`` contains the rules on protected files. Source: ``docs/verification.md``."""
