"""Computes the sizes of rings: fixed, or the initial size and the limit of growth.

Where the user has set ``ring_bytes``, rings have it from the start. Else they begin small and get memory as batches
need it (``tfops/src/core/ring_growth.h``).
"""
from typing import NamedTuple

from ascpipe.config import Settings
from ascpipe.layout import structs
from ascpipe.shm import memory

_FIRST_BYTES = 1 << 20  # some batches of a small program
_MOST_BYTES = 1 << 42  # as of the setting; also where no limit is known


class RingSizes(NamedTuple):
    """Sizes of the arenas of a session's rings, in bytes.

    Attributes:
        first: what has memory from the start.
        reserved: what has addresses.
        ample: how large one grows for any batch that waits, 0 if rings do not grow; more for few large ones.
        most: to how much all of them may grow together, 0 if rings do not grow.
        private: the daemon has its settings from the trainer's environment.
    """

    first: int
    reserved: int
    ample: int
    most: int
    private: bool

    def use_memfd(self, chosen: bool, places: memory.Places) -> bool:
        """The kind of memory for a ring where ``chosen`` is right for what has memory from the start."""
        return chosen or memory.needs_memfd(self.most, places)


def ring_sizes(settings: Settings, *, private: bool, places: memory.Places) -> RingSizes:
    """Sizes of the rings of a session that begins now.

    Args:
        settings: of the daemon.
        private: it serves the trainer that started it.
        places: where these are read.
    """
    if settings.is_given("ring_bytes"):
        return RingSizes(settings.ring_bytes, settings.ring_bytes, 0, 0, private)
    share = memory.limit_bytes(places) // 100 * settings.ring_percent
    most = structs.align(max(_FIRST_BYTES, min(share, _MOST_BYTES)), structs.PAGE)
    return RingSizes(_FIRST_BYTES, most, min(settings.ring_bytes, most), most, private)
