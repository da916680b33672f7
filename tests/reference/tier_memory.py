"""What twins of the kernels of a table with rows on disk work on: requests as objects, all else in lists and sets."""
from ascpipe.kernels.tier_memory import CANDIDATE, FREE, LEAVING, TO_COME
from ascpipe.layout.words import REQUEST_EMPTY
from tests.reference import disk_slots


class Request:
    """A REQUEST."""

    def __init__(self):
        self.key = self.slot = self.entry = self.generation = self.kind = self.error = 0
        self.word = REQUEST_EMPTY

    def values(self):
        return self.key, self.slot, self.entry, self.generation, self.kind, self.error, self.word


class Tier:
    """Home rows and disk slots of a ``batch_steps.Table``; its entries say where rows are.

    Attributes:
        requests: by home row.
        asks: all numbers that were ever put into the ring; ``taken`` of them were taken out.
        readers: epoch of each that has begun, by number.
        coming: by entry, of those whose row comes home: TO_COME, or COMES and the home row.
        resting_homes, resting_slots: (number, epoch) of each, the oldest first.
        scores: of the candidates, once there was a need; too low or right.
        new_keys: by number of a near frame, keys that have no row at all.
    """

    def __init__(self, home_rows, disk_slots_, per_block, asks_room):
        self.home_rows, self.disk_slots, self.per_block = home_rows, disk_slots_, per_block
        self.asks_room, self.fetch_ahead = asks_room, 1
        self.wanted_room = self.resting_slots_room = 1 << (2 * home_rows - 1).bit_length()
        # shared memory
        self.requests = [Request() for _ in range(home_rows)]
        self.epoch, self.readers, self.asks, self.taken, self.fetches, self.spills = 1, {}, [], 0, 0, 0
        self.waits = self.waiting = 0
        # what outlives a cut
        self.failed_writes = self.last_error = self.rests_until = self.first_use = 0
        self.is_derived = False
        self.forget()

    def forget(self):
        """Forget what can be derived."""
        self.status, self.owners = [FREE] * self.home_rows, [-1] * self.home_rows
        self.free, self.high = [], 0  # home rows: a stack, and the first that was never used
        self.coming, self.wanted, self.under_way = {}, [], []
        self.resting_homes, self.resting_slots = [], []
        self.used_slots, self.stacks = set(), []
        self.near, self.near_frames, self.new_keys = -1, set(), {}
        self.is_ordered, self.scores, self.lost = False, {}, -1

    def order_blocks(self):
        """Make the stacks of blocks from the slots in use."""
        blocks = -(-self.disk_slots // self.per_block)
        self.stacks = disk_slots.order_blocks(self.used_slots, blocks, self.per_block)

    @property
    def lacking(self):
        """Keys of near frames that have no home row, and none that comes."""
        return sum(self.new_keys.values()) + list(self.coming.values()).count(TO_COME)

    @property
    def candidates(self):
        return self.status.count(CANDIDATE)

    @property
    def leaving(self):
        return self.status.count(LEAVING)

    @property
    def room_for_asks(self):
        return self.asks_room // 2 - (len(self.asks) - self.taken)
