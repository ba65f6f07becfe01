"""Content of a file that is read once for all readers of a process, and again only after the file has changed."""

import time

from agent_harness.kernel import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.files import AnyPath

_TICK_NS = 20_000_000  # a second write within one tick of the disk's clock may leave size and time as they are


class SharedContent:
    """Last content of a file, together with the stamp that the file had before it was read."""

    __slots__ = ("_content", "_path", "_stamp")

    def __init__(self, path: "AnyPath") -> None:
        self._path = path
        self._content = b""
        self._stamp: tuple[int, ...] | None = None

    def read(self) -> bytes:
        """Return the present content. Raise the errors of ``files.read_bytes``."""
        stamp = files.stamp_of(self._path)
        if stamp is None or stamp != self._stamp:
            self._content = files.read_bytes(self._path)
            self._stamp = stamp if stamp and time.time_ns() - stamp[-1] > _TICK_NS else None
        return self._content
