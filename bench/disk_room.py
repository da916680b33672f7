"""Free slots of an empty row file, as a table worker derives them."""
import numpy as np

from ascpipe.kernels.disk_slots import mask_words, order_blocks
from ascpipe.kernels.records import DiskRoom


def empty_room(blocks: int, per_block: int) -> DiskRoom:
    """Return the ``Room`` of a file of empty blocks with ``per_block`` slots each."""
    counts, following, before = np.zeros((3, blocks), np.int32)
    room = DiskRoom(np.zeros(blocks * mask_words(per_block), np.uint64), counts, following, before,
                    np.zeros(per_block + 1, np.int32))
    order_blocks(room)
    return room
