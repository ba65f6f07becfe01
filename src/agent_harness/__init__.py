"""agent-harness: run coding agents unattended for days, and trust the result."""

__version__ = "1.2.1"
