"""The running pipeline of a process, with the connection to the daemon, the native pipeline, tables and streams."""
import contextlib
import logging
import uuid
from typing import Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from ascpipe.checkpoint.contents import Link, Position
from ascpipe.control import messages, trainer_link
from ascpipe.eviction_log import EvictionLog
from ascpipe.layout import structs
from ascpipe.layout.words import LOCAL, TRAIN, WAIT_NONE
from ascpipe.ranks import cause_of_end
from ascpipe.tf.running import asking, native
from ascpipe.tf.running.asking import Follower
from ascpipe.tf.running.row_access import RowAccess
from ascpipe.tf.running.save_thread import SaveThread
from ascpipe.tf.running.shapes import NO_TABLE, KnownTable, ReadSource, StreamShape, TableShape

_log = logging.getLogger(__name__)

_LOCAL_RINGS = 1 << 20  # the number of a local ring is this number plus the number of its stream


def ring_messages(stream: StreamShape, ranks: int) -> List[messages.Stream]:
    """Return the descriptions of the rings of a stream for the daemon.

    With several ranks, the result includes the local ring.
    """
    rings = [messages.Stream(stream.number, stream.channel, stream.tables)]
    if ranks > 1:
        rings.append(messages.Stream(_LOCAL_RINGS + stream.number, LOCAL, stream.tables, ranks))
    return rings


class Tip(NamedTuple):
    """Description of the newest save with a given directory and base name. The newest save is the parent of the next
    delta.

    Attributes:
        prefix: prefix of the checkpoint.
        link: identification of the checkpoint as the parent of a delta.
        deltas: number of deltas since the full checkpoint. It includes this save if this save is a delta.
        position: training position of the save.
        full: training position of the full checkpoint.
        loads: table name -> number of the last load. It is necessary because a load does not mark entries as changed.
        rank: rank whose keys the save contains.
        ranks: number of ranks.
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
    """A running pipeline, which owns the connection to the daemon and the native pipeline.

    Args:
        tables: tables of the graph that started the pipeline.
        streams: streams of that graph. They have already been added to the native pipeline.
        session: the session segment as an uint8 array.

    Attributes:
        tables: tables of all graphs, by name, in the order of their numbers.
        streams: streams that do not share the ring of another stream.
        rings: number of a stream -> number of its ring.
        run_id: identifier that is unique among all pipelines. It changes when rows are changed outside of training. An
            earlier checkpoint is then not mistaken for the current state.
        seeds: table name -> seed of the initial rows. A restore sets the saved seed.
        pools: table name -> pool of initial rows, float32[rows, dim]. It contains the tables whose initializer uses a
            pool. A restore sets the saved pool.
        loaded: two training positions, or None before the first load. The first one is the position in the last loaded
            checkpoint. The second one is the position of this pipeline after that load.
        tips: newest saves of this pipeline, by ``deltas.name_of(directory, base)``.
        wait_timeout_s: timeout in seconds of a wait for another rank. The timeout starts again whenever that rank makes
            progress.
        save_log_bytes: maximum bytes of memory in which a background save stores images of rows that change.
        read_ahead: recommended prefetch depth of datasets, in batches.
        reads: number of a ring -> datasets that read files and feed the training streams of all graphs.
        restores: on ranks other than 0, restores of which only one half has happened. The item is ("restore", path) if
            the program has restored the checkpoint and the tables are not loaded yet, and ("load", path) in the
            opposite case.
        logged: warnings that are logged only once and were already logged.
        follower: thread that executes requests of rank 0, or None on rank 0.
        live_rows: object that reads and changes rows between two steps.
        eviction_log: log of the keys that the program deletes, or None.
    """

    live_rows: RowAccess

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
        self.reads: Dict[int, List[ReadSource]] = {}
        self.restores: Set[Tuple[str, str]] = set()
        self.logged: Set[str] = set()
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
        settings = link.settings
        self.eviction_log = EvictionLog(settings.eviction_log, settings.eviction_log_mb << 20, _log.warning) if (
            settings.eviction_log) else None

    def trained_tables(self) -> Set[int]:
        """Return the numbers of the tables in training streams."""
        return {number for stream in self.streams if stream.channel == TRAIN for number in stream.tables}

    def waits(self) -> bool:
        """Return whether an op of the trainer is waiting, for example for a plan, another rank, a disk or a save."""
        return int(self._bell["waits_for"][0]) != WAIT_NONE

    def begin_history(self) -> None:
        """Change ``run_id``. Call this method after rows were changed outside of training."""
        self.run_id = uuid.uuid4().hex

    def add_table(self, table: KnownTable, shape: TableShape, message: messages.Table) -> None:
        """Add a table. The table may replace an untrained table with the same name.

        Args:
            shape: description of the table and its home rows for the native pipeline.
            message: description of the table for the daemon.
        """
        segment = self.link.add_table(message)
        try:
            self.native_side.add_table(shape, segment)
        finally:
            self.link.close_segments()
        self._note_table(shape.name, table)

    def add_stream(self, shape: StreamShape) -> None:
        """Add a stream, and create a ring for the stream."""
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
        """Connect a stream to another stream's ring in the same channel. The ring must contain at least the tables of
        the stream.
        """
        places = [ring.tables.index(number) for number in shape.tables]
        parts = tuple(part if part == NO_TABLE else places[part] for part in shape.parts)
        self.native_side.share_stream(shape._replace(tables=ring.tables, parts=parts), ring.number)
        self.rings[shape.number] = ring.number

    def close(self) -> None:
        """Wait for the background save, cancel all waits, and close the connection to the daemon.

        A private daemon exits when the connection is closed.

        Raises:
            NotSavedError: the last background save has failed. The pipeline is closed.
        """
        with contextlib.ExitStack() as ends:
            ends.callback(self.link.close)
            ends.callback(self.native_side.stop)
            self._bell = np.zeros(1, structs.BELL)  # after the end of the pipeline, no op is waiting
            if self.ranks > 1:
                ends.callback(self._leave)
            self.background.close()

    def _leave(self) -> None:
        """Notify the other ranks that this rank ends. Until all ranks end, rank 0 may request saves."""
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
