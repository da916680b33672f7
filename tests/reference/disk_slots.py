"""Expected results of the kernels of ``ascpipe/kernels/disk_slots.py``: used slots are a set, blocks are in stacks."""


def order_blocks(used, blocks, per_block):
    """Return stacks of blocks by their number of used slots, with the lowest block on top."""
    stacks = [[] for _ in range(per_block + 1)]
    for block in reversed(range(blocks)):
        stacks[count_of(used, block, per_block)].append(block)
    return stacks


def count_of(used, block, per_block):
    return sum(slot in used for slot in range(block * per_block, (block + 1) * per_block))


def place_rows(used, stacks, n):
    """Use slots for n rows, or for as many as there is room for.

    Returns:
        (slot, whether its block was empty) of each row.
    """
    per_block, taken = len(stacks) - 1, []
    while len(taken) < n:
        count = next((count for count in range(per_block) if stacks[count]), None)
        if count is None:
            break
        block = stacks[count].pop()
        free = [slot for slot in range(block * per_block, (block + 1) * per_block) if slot not in used]
        free = free[:n - len(taken)]
        used.update(free)
        stacks[count + len(free)].append(block)
        taken += [(slot, count == 0) for slot in free]
    return taken


def free_disk_slots(used, stacks, slots):
    per_block = len(stacks) - 1
    for i, slot in enumerate(slots):
        if slot not in used:
            return i
        block = slot // per_block
        stacks[count_of(used, block, per_block)].remove(block)
        used.remove(slot)
        stacks[count_of(used, block, per_block)].append(block)
    return len(slots)
