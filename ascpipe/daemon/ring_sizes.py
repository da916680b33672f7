"""Sizes of rings. A ring has either a fixed size, or an initial size and a maximum size.

Rings have a fixed size if the user has set ``ring_bytes``. Otherwise, rings start small and grow when batches need
memory (``tfops/src/core/ring_growth.h``).
"""
from typing import NamedTuple

from ascpipe.config import Settings
from ascpipe.layout import structs
from ascpipe.shm import memory

_FIRST_BYTES = 1 << 20  # a few batches of a small program
_MOST_BYTES = 1 << 42  # limit of the setting; also used if no memory limit is known


class RingSizes(NamedTuple):
    """Sizes of the arenas of a session's rings, in bytes.

    Attributes:
        first: memory allocated at the start.
        reserved: reserved address space.
        ample: size up to which a ring grows for any batch, or 0 if sizes are fixed. A ring grows beyond this size only
            while it contains few batches.
        most: maximum size of all rings together, or 0 if sizes are fixed.
        private: whether the trainer started the daemon, with the settings of the trainer's environment.
    """

    first: int
    reserved: int
    ample: int
    most: int
    private: bool

    def use_memfd(self, chosen: bool, places: memory.Places) -> bool:
        """Return True if a ring needs a memfd. ``chosen`` is true if /dev/shm has too little space for the initial size
        of the ring.
        """
        return chosen or memory.needs_memfd(self.most, places)


def ring_sizes(settings: Settings, *, private: bool, places: memory.Places) -> RingSizes:
    """Return the sizes of the rings of a new session.

    Args:
        private: whether the daemon serves the trainer that started it.
        places: files and folders with memory limits.
    """
    if settings.is_given("ring_bytes"):
        return RingSizes(settings.ring_bytes, settings.ring_bytes, 0, 0, private)
    share = memory.limit_bytes(places) // 100 * settings.ring_percent
    most = structs.align(max(_FIRST_BYTES, min(share, _MOST_BYTES)), structs.PAGE)
    return RingSizes(_FIRST_BYTES, most, min(settings.ring_bytes, most), most, private)
