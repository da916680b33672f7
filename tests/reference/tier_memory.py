"""State of the twins of the kernels for rows on disk: requests are objects, and other state is lists and sets."""
from ascpipe.kernels.tier_memory import CANDIDATE, FETCH_QUEUED, FREE, SPILLING
from ascpipe.layout.words import REQUEST_EMPTY
from tests.reference import disk_slots


class Request:
    """A request to the disk worker (struct REQUEST)."""

    def __init__(self):
        self.key = self.slot = self.entry = self.generation = self.kind = self.error = 0
        self.word = REQUEST_EMPTY

    def values(self):
        return self.key, self.slot, self.entry, self.generation, self.kind, self.error, self.word


class Tier:
    """Home rows and disk slots of a ``batch_steps.Table``, whose entries have the locations of rows.

    Attributes:
        requests: by home row.
        asks: all numbers that were ever put into the ring; ``taken`` of them were taken out.
        readers: epochs of active readers, by number.
        fetch: by entry that is being fetched: FETCH_QUEUED, or FETCH_TO + home row.
        quarantined_homes, quarantined_slots: (number, epoch) of each, oldest first.
        scores: scores of the candidates, after the first order; correct or too low.
        new_keys: by number of a pinned frame, the number of its keys without a row.
    """

    def __init__(self, home_rows, disk_slots_, per_block, asks_room):
        self.home_rows, self.disk_slots, self.per_block = home_rows, disk_slots_, per_block
        self.asks_room, self.fetch_ahead = asks_room, 1
        self.fetch_queue_room = self.quarantined_slots_room = 1 << (2 * home_rows - 1).bit_length()
        # shared memory
        self.requests = [Request() for _ in range(home_rows)]
        self.epoch, self.readers, self.asks, self.taken, self.fetches, self.spills = 1, {}, [], 0, 0, 0
        self.waits = self.waiting = 0
        # not reset by a cut
        self.failed_writes = self.last_error = self.grace_epoch = self.first_use = 0
        self.is_derived = False
        self.forget()

    def forget(self):
        """Reset all state that can be derived."""
        self.status, self.owners = [FREE] * self.home_rows, [-1] * self.home_rows
        self.free, self.high = [], 0  # home rows: a stack, and the first row that was never used
        self.fetch, self.fetch_queue, self.in_flight = {}, [], []
        self.quarantined_homes, self.quarantined_slots = [], []
        self.used_slots, self.stacks = set(), []
        self.newest_pinned, self.pinned_frames, self.new_keys = -1, set(), {}
        self.is_ordered, self.scores, self.lost = False, {}, -1

    def order_blocks(self):
        """Create the stacks of blocks from the used slots."""
        blocks = -(-self.disk_slots // self.per_block)
        self.stacks = disk_slots.order_blocks(self.used_slots, blocks, self.per_block)

    @property
    def lacking(self):
        """Number of keys of pinned frames that have neither a home row nor a fetch in flight."""
        return sum(self.new_keys.values()) + list(self.fetch.values()).count(FETCH_QUEUED)

    @property
    def candidates(self):
        return self.status.count(CANDIDATE)

    @property
    def spilling(self):
        return self.status.count(SPILLING)

    @property
    def room_for_asks(self):
        return self.asks_room // 2 - (len(self.asks) - self.taken)
