"""agent-harness: runs coding agents unattended for days and keeps only the work that passes its checks."""

__version__ = "1.2.1"
