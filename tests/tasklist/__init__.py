"""Task lists."""

from pathlib import Path

__all__ = ["SEED"]

SEED = Path(__file__).parent.parent / "golden/tasklist/2/seed"
"""The example of the document that the protocol comes from."""
