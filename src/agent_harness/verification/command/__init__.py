"""Verification by a shell command: the files that the command uses, their changes in a candidate, and the runs."""

from agent_harness.verification.command.environment_inventory import (
    Differences,
    FirstLook,
    InstalledRecord,
    around,
    linked_by,
    released,
    starts_python,
)

__all__ = ["Differences", "FirstLook", "InstalledRecord", "around", "linked_by", "released", "starts_python"]
