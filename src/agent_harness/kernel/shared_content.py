"""Content of a file that several readers in one process share for up to a second."""

import time

from agent_harness.kernel import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.files import AnyPath

_SECONDS = 1.0  # a network disk may report the stamp of a changed file too late
_TICK_NS = 20_000_000  # a second write within one tick of the disk's clock may leave size and time as they are
_COARSE_NS = 2_000_000_000  # the same, for a disk that stores whole seconds


class SharedContent:
    """Cached content of a file, which is read again after a second or if the file may have changed."""

    __slots__ = ("_at", "_content", "_path", "_stamp")

    def __init__(self, path: "AnyPath") -> None:
        self._path = path
        self._content = b""
        self._stamp: tuple[int, ...] | None = None
        self._at = 0.0

    def read(self, *, again: bool = False) -> bytes:
        """Return the file's content. With ``again``, read the file even without a change."""
        began, now = time.monotonic(), time.time_ns()
        stamp = files.stamp_of(self._path)
        if again or stamp is None or stamp != self._stamp or began - self._at > _SECONDS:
            self._content = files.read_bytes(self._path)
            is_settled = stamp and now - stamp[-1] > (_TICK_NS if stamp[-1] % 1_000_000_000 else _COARSE_NS)
            self._stamp = stamp if is_settled else None
            self._at = began
        return self._content
