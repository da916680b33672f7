"""Plain-Python twins of ``ascpipe/kernels/ring_scan.py``: a ring has a list of frames and a list of tables."""
from ascpipe.kernels.asks import CONTINUE, ENDED, PROVIDE, RING
from ascpipe.layout.words import DEDUPED, SUBMITTED
from tests.reference import unique
from tests.reference.asks import look_at_bells

CLAIM, DEDUP, PUBLISH = range(3)


class Part:
    """The keys of a table in a frame, and their results; ``fields`` are fields of the struct PART that a plan sets."""

    def __init__(self, ids, weights=None):
        self.weights = weights
        self.ids, self.unique, self.restore, self.occurrences = list(ids), [], [], []
        self.entries, self.record, self.fields = [], None, {}


class Frame:
    """A frame with one part per table."""

    def __init__(self, number, ticket, timestamp, parts):
        self.number, self.ticket, self.timestamp, self.parts = number, ticket, timestamp, parts
        self.claim = self.closed = self.trained = 0


class RingTable:
    """A table in its ring; state words by frame number."""

    def __init__(self):
        self.words, self.finished, self.wanted = {}, 0, 0


class Ring:
    """A ring: frames, oldest first, with numbers without gaps."""

    def __init__(self, tables, rank_size=1):
        self.head, self.frames, self.tables = 0, [], [RingTable() for _ in range(tables)]
        self.rank_size = rank_size

    def frame(self, number):
        return self.frames[number - self.head]


def look(ring, column):
    """Return (head, words, closed, trained, index of the newest frame for which a claim waits, or -1)."""
    table = ring.tables[column]
    waited = [place for place, frame in enumerate(ring.frames)
              if frame.ticket == table.wanted and table.wanted > table.finished]
    return (ring.head, [table.words[frame.number] for frame in ring.frames], [frame.closed for frame in ring.frames],
            [frame.trained for frame in ring.frames], max(waited, default=-1))


def count_untrained(ring):
    return sum(not frame.closed and not frame.trained for frame in ring.frames)


def count_deduped(ring):
    return sum(not frame.closed and all(table.words[frame.number] == DEDUPED for table in ring.tables)
               for frame in ring.frames)


def claim_frame(ring, generation):
    for frame in ring.frames:
        if not frame.claim:
            frame.claim = generation
            return frame.number
    return -1


def submitted_parts(ring, number):
    """Return (columns, number of ids of the largest part)."""
    columns = [column for column, table in enumerate(ring.tables) if table.words[number] == SUBMITTED]
    return columns, max([len(ring.frame(number).parts[column].ids) for column in columns], default=0)


def dedup_parts(ring, number, columns):
    """Deduplicate parts and return their numbers of distinct keys."""
    parts = [ring.frame(number).parts[column] for column in columns]
    for part, made in zip(parts, unique.dedup_parts([(part.ids, part.weights) for part in parts], ring.rank_size)):
        part.unique, part.restore, part.occurrences = made
    return [len(part.unique) for part in parts]


def publish_deduped(ring, number, columns, counts):
    for column, count in zip(columns, counts):
        ring.frame(number).parts[column].fields["unique_count"] = count
        if ring.tables[column].words[number] == SUBMITTED:
            ring.tables[column].words[number] = DEDUPED


class Claims:
    """Progress of a key worker."""

    def __init__(self, generation):
        self.at, self.left, self.done, self.generation, self.number = CLAIM, 0, 0, generation, 0
        self.columns, self.counts, self.largest = [], [], 0


def take_frame_step(ring, claims, cells, listeners):
    """Execute one step; ``cells`` is the number of cells of scratch memory."""
    if claims.at == CLAIM:
        number = claim_frame(ring, claims.generation) if claims.left > 0 else -1
        if number < 0:
            return ENDED
        claims.number, claims.left, claims.at = number, claims.left - 1, DEDUP
        return CONTINUE
    if claims.at == DEDUP:
        claims.columns, claims.largest = submitted_parts(ring, claims.number)
        if cells < (3 * claims.largest + ring.rank_size if ring.rank_size > 1 else 2 * claims.largest):
            return PROVIDE
        claims.counts, claims.at = dedup_parts(ring, claims.number, claims.columns), PUBLISH
        return CONTINUE
    publish_deduped(ring, claims.number, claims.columns, claims.counts)
    claims.done, claims.at = claims.done + 1, CLAIM
    return RING if look_at_bells(listeners) else CONTINUE


def dedup_frames(ring, claims, cells, listeners):
    asks = CONTINUE
    while asks == CONTINUE:
        asks = take_frame_step(ring, claims, cells, listeners)
    return asks
