"""The prompts that agents are given; the texts lie beside this file and hold ``{{name}}`` places.

``orientation`` is the summary of the project, ``verification_types`` what is said about a feature that tests alone do
not prove.

Source: features.md section K, UAH-434..451 for the verification types.
"""

from collections.abc import Mapping
from importlib.resources import files

NAMES = ("initializer", "repair", "coding", "continuation", "cleanup", "extend", "rules", "fix", "evidence")


def render(name: str, values: Mapping[str, str]) -> str:
    """The text of one prompt with its places filled; an unknown place is a ``KeyError``."""
    text = files(__name__).joinpath(f"{name}.md").read_text(encoding="utf-8")
    parts = text.split("{{")
    filled = [parts[0]]
    for part in parts[1:]:
        place, _, rest = part.partition("}}")
        filled.append(values[place.strip()] + rest)
    return "".join(filled)
