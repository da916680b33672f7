"""The running pipeline of a process: the link to the daemon, the native side, their tables and streams."""
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

_LOCAL_RINGS = 1 << 20  # added to the number of a stream, the number of the ring of this rank's own batches


def ring_messages(stream: StreamShape, ranks: int) -> List[messages.Stream]:
    """The daemon's description of the rings of a stream: with several ranks, also that of this rank's own batches."""
    rings = [messages.Stream(stream.number, stream.channel, stream.tables)]
    if ranks > 1:
        rings.append(messages.Stream(_LOCAL_RINGS + stream.number, LOCAL, stream.tables, ranks))
    return rings


class Tip(NamedTuple):
    """The newest save under a name, on which the next delta builds.

    Attributes:
        prefix, link: of the checkpoint.
        deltas: how many stand between it and the full one, itself included; 0: it is the full one.
        position: where training was.
        full: where training was when the full one was saved.
        loads: by table, the last load before; a load is no change that entries tell of.
        rank, ranks: whose keys it is about.
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
    """A running pipeline: the link to the daemon and the native side.

    Args:
        link: to the daemon; closed with the pipeline.
        native_side: stopped with the pipeline.
        tables: of the graph that started it.
        streams: what the native side was told of its streams.
        session: uint8, the session segment.

    Attributes:
        link, native_side: as given.
        tables: of all its graphs, by name, in the order of their numbers.
        streams: those that have a ring of their own.
        rings: by the number of a stream, the number of its ring.
        run_id: unlike that of any other pipeline.
        seeds: of the initial rows, by name of the table; a restore gives a table the seed that it was saved with.
        pools: float32[rows, dim] of those whose initial rows come from a pool; likewise.
        loaded: where the last checkpoint that was loaded stood, and where this pipeline stood then, if one was.
        tips: the newest save of this pipeline, by ``deltas.name_of`` its directory and base.
        background: the save that goes on while training does.
        wait_timeout_s: timeout in seconds without progress of a rank that another rank waits for.
        save_log_bytes: memory that such a save may take for images of rows that training changes.
        read_ahead: batches that a dataset should read ahead of training.
        rank, ranks: number of this process, and of all that train the tables together.
        follower: of a rank but 0, does what rank 0 asks for.
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
        """Numbers of the tables that are in a training stream."""
        return {number for stream in self.streams if stream.channel == TRAIN for number in stream.tables}

    def waits(self) -> bool:
        """Whether an op of the trainer waits now, for a plan, another step or rank, a disk, or a save."""
        return int(self._bell["waits_for"][0]) != WAIT_NONE

    def add_table(self, table: KnownTable, shape: TableShape, message: messages.Table) -> None:
        """Add a table, or one of this name that was never trained anew.

        Args:
            table: as its graph has it.
            shape: the same with its home rows, for the native side.
            message: the same for the daemon.
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
        """Let a stream use the ring of another one, which has its channel and its tables."""
        places = [ring.tables.index(number) for number in shape.tables]
        parts = tuple(part if part == NO_TABLE else places[part] for part in shape.parts)
        self.native_side.share_stream(shape._replace(tables=ring.tables, parts=parts), ring.number)
        self.rings[shape.number] = ring.number

    def close(self) -> None:
        """Let a save end, cancel every wait, and end our part of the daemon, or the daemon if it is a private one.

        Raises:
            NotSavedError: the last save, in the background, has failed; all is ended.
        """
        with contextlib.ExitStack() as ends:
            ends.callback(self.link.close)
            ends.callback(self.native_side.stop)
            self._bell = np.zeros(1, structs.BELL)  # of a pipeline that has ended, which waits for nothing
            if self.ranks > 1:
                ends.callback(self._leave)
            self.background.close()

    def _leave(self) -> None:
        """Let the other ranks know; until they end, too, rank 0 may ask for a save."""
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
