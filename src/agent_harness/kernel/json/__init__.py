"""JSON: read and written so that what we did not change stays as it was.

jsontext   one value as text, numbers and the order of members kept; strict
spans      a document with one long list, of which only the elements that changed are written anew
list_file  such a document as a state file, with its last state kept beside it
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    JsonObject = dict[str, Any]
    """What a JSON object is in Python, where its members are handed on and not looked at."""
else:
    JsonObject = dict  # `typing` costs as much as the rest of a hook

__all__ = ["JsonObject"]
