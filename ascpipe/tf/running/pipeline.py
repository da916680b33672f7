"""The running pipeline of a process: link to the daemon, native side, tables and streams."""
import contextlib
import uuid
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ascpipe.checkpoint.contents import Link, Position
from ascpipe.control import messages, trainer_link
from ascpipe.layout import structs
from ascpipe.layout.words import LOCAL, TRAIN, WAIT_NONE
from ascpipe.ranks import cause_of_end
from ascpipe.tf.running import asking, native
from ascpipe.tf.running.asking import Follower
from ascpipe.tf.running.save_thread import SaveThread
from ascpipe.tf.running.shapes import NO_TABLE, KnownTable, StreamShape, TableShape

_LOCAL_RINGS = 1 << 20  # the local ring of a stream has this number plus the number of the stream


def ring_messages(stream: StreamShape, ranks: int) -> List[messages.Stream]:
    """Return the daemon's description of the rings of a stream: with several ranks, also of the local ring."""
    rings = [messages.Stream(stream.number, stream.channel, stream.tables)]
    if ranks > 1:
        rings.append(messages.Stream(_LOCAL_RINGS + stream.number, LOCAL, stream.tables, ranks))
    return rings


class Tip(NamedTuple):
    """The newest save with one directory and base, on which the next delta builds.

    Attributes:
        prefix, link: prefix of the checkpoint, and its identification as a parent.
        deltas: number of deltas since the full checkpoint, including this one.
        position: training position.
        full: training position at the full checkpoint.
        loads: by table name, number of the last load. A load is not visible as a change of entries.
        rank, ranks: rank whose keys the save contains, and number of ranks.
    """

    prefix: str
    link: Link
    deltas: int
    position: Position
    full: Position
    loads: Dict[str, int]
    rank: int = 0
    ranks: int = 1


class Pipeline:
    """A running pipeline: the link to the daemon and the native side, both of which it owns.

    Args:
        tables: tables of the graph that started it.
        streams: its streams, which the native side has.
        session: uint8, the session segment.

    Attributes:
        tables: tables of all graphs, by name, in the order of their numbers.
        streams: streams that have a ring of their own.
        rings: number of the ring, by number of the stream.
        run_id: unique among all pipelines.
        seeds: seeds of the initial rows, by table name. A restore sets the saved seed.
        pools: float32[rows, dim] by table name, if initial rows come from a pool. A restore sets the saved pool.
        loaded: position in the last loaded checkpoint, and of this pipeline after that load; or None.
        tips: the newest saves of this pipeline, by ``deltas.name_of`` directory and base.
        wait_timeout_s: timeout in seconds without progress of a rank that another rank waits for.
        save_log_bytes: maximum memory of a background save for images of rows that change.
        read_ahead: recommended prefetch depth of datasets, in batches.
        follower: carries out requests of rank 0; None on rank 0.
    """

    def __init__(self, link: trainer_link.TrainerLink, native_side: native.NativePipeline,
                 tables: Dict[str, KnownTable], streams: Sequence[StreamShape], session: np.ndarray, rank: int = 0,
                 ranks: int = 1) -> None:
        self.rank = rank
        self.ranks = ranks
        self.follower: Optional[Follower] = None
        self.link = link
        self.native_side = native_side
        first = structs.SESSION_BELLS_OFFSET + structs.BELL_TRAINER * structs.BELL.itemsize
        self._bell = session[first:first + structs.BELL.itemsize].view(structs.BELL)
        self.streams = list(streams)
        self.rings = {stream.number: stream.number for stream in streams}
        self.run_id = uuid.uuid4().hex
        self.tables: Dict[str, KnownTable] = {}
        self.seeds: Dict[str, int] = {}
        self.pools: Dict[str, np.ndarray] = {}
        for name, table in tables.items():
            self._note_table(name, table)
        self.loaded: Optional[Tuple[Position, Position]] = None
        self.tips: Dict[str, Tip] = {}
        self.background = SaveThread()
        self.wait_timeout_s = link.settings.wait_timeout_s
        self.save_log_bytes = link.settings.save_log_bytes
        self.read_ahead = link.settings.read_ahead

    def trained_tables(self) -> Set[int]:
        """Return the numbers of the tables in training streams."""
        return {number for stream in self.streams if stream.channel == TRAIN for number in stream.tables}

    def waits(self) -> bool:
        """Return whether an op of the trainer is waiting for a plan, another step or rank, a disk, or a save."""
        return int(self._bell["waits_for"][0]) != WAIT_NONE

    def add_table(self, table: KnownTable, shape: TableShape, message: messages.Table) -> None:
        """Add a table, or replace a table of the same name that was never trained.

        Args:
            shape: its shape with home rows, for the native side.
            message: its description for the daemon.
        """
        segment = self.link.add_table(message)
        try:
            self.native_side.add_table(shape, segment)
        finally:
            self.link.close_segments()
        self._note_table(shape.name, table)

    def add_stream(self, shape: StreamShape) -> None:
        """Add a stream with a ring of its own."""
        rings = ring_messages(shape, self.ranks)
        try:
            self.native_side.add_stream(shape, self.link.add_stream(rings[0]))
            for ring in rings[1:]:
                self.native_side.add_local_stream(shape, ring.stream, self.link.add_stream(ring))
        finally:
            self.link.close_segments()
        self.streams.append(shape)
        self.rings[shape.number] = shape.number

    def share_ring(self, shape: StreamShape, ring: StreamShape) -> None:
        """Let a stream use the ring of another stream with the same channel and tables."""
        places = [ring.tables.index(number) for number in shape.tables]
        parts = tuple(part if part == NO_TABLE else places[part] for part in shape.parts)
        self.native_side.share_stream(shape._replace(tables=ring.tables, parts=parts), ring.number)
        self.rings[shape.number] = ring.number

    def close(self) -> None:
        """Wait for the background save, cancel all waits, and close the link, which ends a private daemon.

        Raises:
            NotSavedError: the last background save has failed; the pipeline is closed.
        """
        with contextlib.ExitStack() as ends:
            ends.callback(self.link.close)
            ends.callback(self.native_side.stop)
            self._bell = np.zeros(1, structs.BELL)  # without waits: the pipeline has ended
            if self.ranks > 1:
                ends.callback(self._leave)
            self.background.close()

    def _leave(self) -> None:
        """Notify the other ranks. Rank 0 may request saves until they end, too."""
        try:
            asking.leave(cause_of_end())
        finally:
            if self.follower is not None:
                self.follower.close()

    def _note_table(self, name: str, table: KnownTable) -> None:
        self.tables[name] = table
        self.seeds[name] = table.shape.seed
        self.pools.pop(name, None)
        if table.shape.pool is not None:
            self.pools[name] = table.shape.pool
