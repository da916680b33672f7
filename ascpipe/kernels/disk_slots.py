"""Kernels that allocate and free the slots of a row file. Rows are written to the blocks with the most free slots.

A block is always written as a whole, so the cost of a row depends on the number of rows that are written to the same
block. In a file with a fifth of its slots free, about 2.5 bytes are written per byte of a row. Blocks with the same
number of slots in use form a list, whose head is the block that was added last. The choice of a block in a list does
not affect the cost.

A slot is in use from the moment it is taken until it is freed. That includes the time while its row is written, and
while a reader that started earlier may read it. Counts and lists can be rebuilt from the masks.

The plain-Python version is ``tests/reference/disk_slots.py``.
"""
import numpy as np

from ascpipe.kernels.bits import lowest_bit
from ascpipe.kernels.door import inner

_ONE = np.uint64(1)
_LOW = np.uint64(63)
_NONE = np.uint64(0)
_NO_BLOCK = -1


def mask_words(per_block: int) -> int:
    """Return the number of 64-bit words in the mask of a block with ``per_block`` slots."""
    return (per_block + 63) // 64


@inner("void(DiskRoom, int64)")
def _link(room, block):
    """Insert a block into the list of blocks that have the same number of slots in use."""
    count = room.counts[block]
    follows = room.first[count]
    room.before[block] = _NO_BLOCK
    room.following[block] = follows
    if follows != _NO_BLOCK:
        room.before[follows] = block
    room.first[count] = block


@inner("void(DiskRoom, int64)")
def _unlink(room, block):
    """Remove a block from the list of blocks that have the same number of slots in use."""
    before = room.before[block]
    follows = room.following[block]
    if before != _NO_BLOCK:
        room.following[before] = follows
    else:
        room.first[room.counts[block]] = follows
    if follows != _NO_BLOCK:
        room.before[follows] = before


@inner("int64(DiskRoom)")
def order_blocks(room):
    """Compute the slot counts and the lists of all blocks from the masks.

    Args:
        room: DiskRoom of a file. The masks must be complete.

    Returns:
        Number of slots in use.
    """
    blocks = room.counts.shape[0]
    words = room.masks.shape[0] // max(1, blocks)
    used = np.int64(0)
    room.first[:] = _NO_BLOCK
    for block in range(blocks - 1, -1, -1):  # so that the lowest block is first
        count = np.int64(0)
        for word in range(block * words, block * words + words):
            left = room.masks[word]
            while left != _NONE:
                left &= left - _ONE
                count += 1
        room.counts[block] = count
        used += count
        _link(room, block)
    return used


@inner("int64(DiskRoom, int64, int64[::1], int64)")
def _take_in_block(room, block, out_slots, taken):
    """Take the lowest free slots of a block until the block or ``out_slots`` is full. Return the total number
    of taken slots.
    """
    per_block = room.first.shape[0] - 1
    words = room.masks.shape[0] // room.counts.shape[0]
    for word in range(words):
        at = block * words + word
        free = ~room.masks[at]
        while free != _NONE and taken < out_slots.shape[0]:
            slot = word * 64 + np.int64(lowest_bit(free))
            if slot >= per_block:
                break
            room.masks[at] |= free & (~free + _ONE)
            free &= free - _ONE
            room.counts[block] += 1
            out_slots[taken] = block * per_block + slot
            taken += 1
    return taken


@inner("int64(DiskRoom, int64[::1], uint8[::1])")
def place_rows(room, out_slots, out_alone):
    """Allocate slots for rows, first in the emptiest block, then in fuller blocks.

    Args:
        room: DiskRoom of the file.
        out_slots: int64[n]; receives the slots. Slots of a block are contiguous and ascending.
        out_alone: uint8[n]; receives 1 if the block was empty, so that it can be written without reading it before.

    Returns:
        Number of slots taken: n, or all free slots if there are fewer.
    """
    per_block = room.first.shape[0] - 1
    count = 0
    taken = np.int64(0)
    while taken < out_slots.shape[0]:
        while count < per_block and room.first[count] == _NO_BLOCK:
            count += 1
        if count == per_block:
            break
        block = np.int64(room.first[count])
        _unlink(room, block)
        until = _take_in_block(room, block, out_slots, taken)
        _link(room, block)
        out_alone[taken:until] = count == 0
        taken = until
    return taken


@inner("int64(DiskRoom, int64[::1])")
def free_disk_slots(room, slots):
    """Free disk slots of a row file.

    Args:
        room: DiskRoom of the file.
        slots: int64[n].

    Returns:
        n, or the index of the first slot that is already free or not in this file. The slots before this index
        are freed.
    """
    per_block = room.first.shape[0] - 1
    blocks = room.counts.shape[0]
    words = room.masks.shape[0] // max(1, blocks)
    for i in range(slots.shape[0]):
        slot = slots[i]
        if slot < 0 or slot >= blocks * per_block:
            return i
        block = slot // per_block
        own = slot % per_block
        word = block * words + (own >> 6)
        bit = _ONE << (np.uint64(own) & _LOW)
        if room.masks[word] & bit == _NONE:
            return i
        room.masks[word] &= ~bit
        _unlink(room, block)
        room.counts[block] -= 1
        _link(room, block)
    return slots.shape[0]
