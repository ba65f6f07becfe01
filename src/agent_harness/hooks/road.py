"""The name under which plugins that were copied from releases up to 1.2 look for this package: see ``dispatch``."""

from agent_harness.hooks.dispatch import call_and_exit

__all__ = ["call_and_exit"]
