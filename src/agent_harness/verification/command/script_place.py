"""Replacement of shell expressions for a script's own folder by the folder's path."""

import posixpath
import re

_OWN_NAME = r"""["']?\$(?:0|\{0\}|BASH_SOURCE|\{BASH_SOURCE(?:\[0\])?(?::-\$0)?\})["']?"""
_OWN_FOLDER = re.compile(
    rf"""\$\(\s*dirname\s+(?:--\s+)?(?:\$\(\s*(?:readlink|realpath)(?:\s+-\w+)*\s+(?:--\s+)?{_OWN_NAME}\s*\)|"""
    rf"""["']?\$\(\s*(?:readlink|realpath)(?:\s+-\w+)*\s+(?:--\s+)?{_OWN_NAME}\s*\)["']?|{_OWN_NAME})\s*\)"""
    r"""|\$\{0%/\*\}|\$\{BASH_SOURCE(?:\[0\])?%/\*\}"""
)
_TOP_FOLDER = re.compile(r"\$\(\s*git\s+rev-parse\s+--show-toplevel\s*\)")
_ENTERED = re.compile(
    r"""\$\(\s*(?:CDPATH=\s+)?cd\s+(?:--\s+)?["']?([\w./+-]+)["']?\s*(?:>\s*/dev/null\s*)?(?:2>&1\s*)?(?:&&|;)\s*pwd(?:\s+-\w)?\s*\)"""
)


def placed(text: str, *, folder: str, script: str) -> str:
    """Return a script's text with the script's real folder in place of ``${0%/*}`` and similar expressions."""
    here = posixpath.relpath(posixpath.dirname(script) or ".", folder or ".")
    text = _OWN_FOLDER.sub(here, text)
    text = _TOP_FOLDER.sub(posixpath.relpath(".", folder or "."), text)
    return _ENTERED.sub(r"\1", text)
