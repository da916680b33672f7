"""Class ``SessionMemory``, which allocates the segments of a session in shared memory.

After the supervisor has written the initial content, it writes only the failure of the session, PIDs, bells and cleared
claims. It reads only counters, bells, and the state and claims of frames.
"""
import dataclasses
import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ascpipe.config import Settings
from ascpipe.control import messages
from ascpipe.daemon.disk_room import require_room
from ascpipe.daemon.ring_sizes import ring_sizes
from ascpipe.daemon.segment_headers import Segment, shape_of, write_ring, write_session, write_table
from ascpipe.daemon.worker_identity import DISK, KEY, TABLE, Worker
from ascpipe.disk.row_engine import RowEngineError, RowFile, create_file
from ascpipe.errors import AscpipeError, RowFileError, number_of
from ascpipe.layout import structs
from ascpipe.layout.ring_shape import RingShape, ring_shape
from ascpipe.layout.ticket import sequence_of
from ascpipe.layout.words import SUBMITTED
from ascpipe.shm import bell, memory, segment


class SessionMemory:
    """Segments of a session.

    Args:
        start: streams and tables that the trainer requests.
        run: run number. It is the upper bits of each ticket.
        places: files and folders with memory limits.
        private: whether the trainer started this daemon.

    Raises:
        OutOfSharedMemoryError: nothing was allocated.
    """

    def __init__(self, start: messages.Start, settings: Settings, run: int,
                 places: memory.Places = memory.Places(), *, private: bool = False) -> None:  # noqa: B008  (immutable)
        self.start = start
        self.run = run
        self._settings = settings
        self._places = places
        self._ring_sizes = ring_sizes(settings, private=private, places=places)
        rings = [self._ring_shape(stream) for stream in start.streams]
        tables = [shape_of(table) for table in start.tables]
        # memory of entries, home rows, logs and growing rings is allocated later, at its first use
        need = structs.SESSION_BYTES + sum(map(self._present, rings)) + sum(s.entries_offset for s in tables)
        what = "{} rings and {} tables".format(len(rings), len(tables))
        self.use_memfd = memory.preflight(need, what, places)
        self._segments: List[Segment] = []
        self._row_files: Dict[int, List[RowFile]] = {}
        try:
            for table in start.tables:
                self._make_row_files(table, start.tables)
            self.session = self._make(structs.SESSION_BYTES, "the session")
            self.rings = [self._make_ring(shape, stream, use_memfd=self.use_memfd)
                          for shape, stream in zip(rings, start.streams)]
            self.tables = [self._make(shape.total_bytes, "table {!r}".format(table.name), shape.entries_offset)
                           for shape, table in zip(tables, start.tables)]
            for made, shape, table in zip(self.tables, tables, start.tables):
                write_table(made, shape, table)
            write_session(self.session, run, self._ring_sizes)
        except BaseException:
            self.close()
            raise

    def add_stream(self, stream: messages.Stream) -> Segment:
        """Create the ring of a new stream and add the ring to the session.

        Raises:
            MessageError: see ``messages.extended``.
            OutOfSharedMemoryError: nothing was allocated, and the session is unchanged.
        """
        start = messages.extended(self.start, stream)
        shape = self._ring_shape(stream)
        made = self._make_ring(shape, stream, use_memfd=memory.preflight(
            self._present(shape), _name_of(stream), self._places))
        self.start = start
        self.rings.append(made)
        return made

    def _ring_shape(self, stream: messages.Stream) -> RingShape:
        return ring_shape(len(stream.tables), self._ring_sizes.reserved)

    def _present(self, shape: RingShape) -> int:
        """Return the number of bytes that are allocated when a ring is created."""
        return structs.align(shape.arena_offset + self._ring_sizes.first, structs.PAGE)

    def _make_ring(self, shape: RingShape, stream: messages.Stream, *, use_memfd: bool) -> Segment:
        made = self._make(shape.total_bytes, _name_of(stream), self._present(shape),
                          use_memfd=self._ring_sizes.use_memfd(use_memfd, self._places))
        write_ring(made, shape, self._present(shape), stream, self._settings)
        return made

    def drop_stream(self) -> None:
        """Remove the ring that was added last. Call the method only if no process has received the ring."""
        self.start = dataclasses.replace(self.start, streams=self.start.streams[:-1])
        self.close_segment(self.rings.pop())

    def make_table(self, table: messages.Table) -> Segment:
        """Create the segment of a table. ``add_table`` then adds the segment to the session.

        Raises:
            MessageError: see ``messages.with_table``.
            OutOfSharedMemoryError: see ``add_stream``.
        """
        messages.with_table(self.start, table)
        shape = shape_of(table)
        what = "table {!r}".format(table.name)
        self._make_row_files(table, [*self.start.tables, table])
        made = self._make(shape.total_bytes, what, shape.entries_offset,
                          use_memfd=memory.preflight(shape.entries_offset, what, self._places))
        write_table(made, shape, table)
        return made

    def add_table(self, table: messages.Table, made: Segment) -> None:
        """Add the result of ``make_table`` to the session. If the new segment replaces a segment, close the old
        segment.
        """
        self.start = messages.with_table(self.start, table)
        if table.table < len(self.tables):
            self.close_segment(self.tables[table.table])
        self.tables[table.table:table.table + 1] = [made]

    def close_segment(self, made: Segment) -> None:
        """Close the file descriptor that the daemon holds for a segment."""
        self._segments = [segment for segment in self._segments if segment.fd != made.fd]
        os.close(made.fd)

    def _make(self, size: int, what: str, present: Optional[int] = None, *,
              use_memfd: Optional[bool] = None) -> Segment:
        use_memfd = self.use_memfd if use_memfd is None else use_memfd
        fd = segment.create(size, what, use_memfd=use_memfd, present=present)
        try:
            made = Segment(fd, size, segment.map(fd, size))
        except BaseException:
            os.close(fd)
            raise
        self._segments.append(made)
        return made

    def fds(self) -> List[int]:
        """Return the descriptors of all segments in the order in which they are sent: session, rings, tables."""
        return [made.fd for made in (self.session, *self.rings, *self.tables)]

    def sizes(self) -> Dict[str, Any]:
        """Return the sizes of all segments, for the reply to ``start``."""
        return {
            "session_bytes": self.session.size,
            "streams": [{"stream": stream.stream, "bytes": ring.size}
                        for stream, ring in zip(self.start.streams, self.rings)],
            "tables": [{"table": table.table, "bytes": made.size}
                       for table, made in zip(self.start.tables, self.tables)],
        }

    @property
    def eviction_log(self) -> str:
        """Return the path of the log of evicted keys, or an empty string if evictions are not logged."""
        return self._settings.eviction_log

    def attach_body(self, hash_seed: int, *, restart: bool) -> Dict[str, Any]:
        """Return the message that attaches a worker. The message does not include the file descriptors of the segments.
        """
        return {"verb": "attach", "restart": restart, "session_bytes": self.session.size, "hash_seed": hash_seed,
                "spin_us": self._settings.spin_us, "eviction_log": self._settings.eviction_log,
                "eviction_log_mb": self._settings.eviction_log_mb, "streams": self._stream_fields(),
                "tables": self._table_fields()}

    def table_body(self, number: int, *, with_files: bool) -> Tuple[Dict[str, Any], List[int]]:
        """Return the message about an added table, and the descriptor of the table's segment. If ``with_files`` is
        true, the message and the descriptors include the table's row files.
        """
        files, fds = self.row_files(number) if with_files else ([], [])
        return {"verb": "add_table", "row_files": files, **self._table_fields()[number]}, [self.tables[number].fd, *fds]

    def row_files(self, number: Optional[int] = None) -> Tuple[List[Dict[str, Any]], List[int]]:
        """Return the table and the directory of each row file, and the files' descriptors. ``number`` selects one
        table.
        """
        numbers = sorted(self._row_files) if number is None else [number]
        files = [(table, file) for table in numbers for file in self._row_files.get(table, ())]
        told = [{"table": table, "directory": file.directory} for table, file in files]
        return told, [file.fd for _, file in files]

    def _make_row_files(self, table: messages.Table, tables: Sequence[messages.Table]) -> None:
        """Create the row files of a table. If two items of ``tables`` have the same table number, the later item is
        used.

        Raises:
            RowFileError: a file cannot be created in a directory, or the disk has too little free space.
        """
        self._close_row_files(table.table)
        files = self._row_files[table.table] = []
        try:
            for directory in table.directories:
                try:
                    files.append(create_file(directory, 4 * table.row_floats))
                except RowEngineError as error:
                    raise RowFileError(table.name, directory, error.sentence()) from error
            require_room(table, self._row_files, {known.table: known for known in tables})
        except RowFileError:
            self._close_row_files(table.table)
            raise

    def _close_row_files(self, number: int) -> None:
        for file in self._row_files.pop(number, []):
            os.close(file.fd)

    def _table_fields(self) -> List[Dict[str, Any]]:
        return [{"table": table.table, "name": table.name, "worker": self._settings.table_worker_of(table.table),
                 "bytes": made.size, "directories": list(table.directories)}
                for table, made in zip(self.start.tables, self.tables)]

    def stream_body(self, number: int) -> Tuple[Dict[str, Any], List[int]]:
        """Return the message about an added stream, and the descriptor of the stream's ring."""
        place = [stream.stream for stream in self.start.streams].index(number)
        return {"verb": "add_stream", **self._stream_fields()[place]}, [self.rings[place].fd]

    def set_pid(self, bell_index: int, pid: int) -> None:
        """Store the PID of the process that owns a bell."""
        self._bell(bell_index)["pid"] = pid

    def fail(self, error: AscpipeError, logs: str) -> None:
        """Store the failure of the session, and ring all bells. Only the first failure is stored.

        ``logs`` is the directory of the logs. It is appended to the message unless it is empty.
        """
        header = self.session.view(structs.SESSION)[0]
        if header["failed"]:
            return
        where = _cut(". Logs: {}".format(logs), structs.FAILURE_TEXT_BYTES // 2) if logs else b""
        text = _cut(str(error), structs.FAILURE_TEXT_BYTES - len(where)) + where
        header["failure_text"] = text
        header["failure_bytes"] = len(text)
        header["failed"] = number_of(error.code)
        self.ring_all()

    def clear_claims(self, generation: int) -> None:
        """Release the claims of a dead key worker on unfinished frames. The worker must have been reaped before."""
        for _, frames, place in self._claimed(generation):
            frames["claim"][place] = 0
        self.ring_all()  # the worker may have published a frame without ringing the bell

    def batches_of(self, generation: int) -> List[str]:
        """Return the unfinished batches of a reaped key worker, for example ``batch 45 of stream 0``."""
        return ["batch {} of stream {}".format(sequence_of(int(frames["ticket"][place])), stream)
                for stream, frames, place in self._claimed(generation)]

    def _claimed(self, generation: int) -> Iterator[Tuple[int, Any, int]]:
        """Yield (stream, frames of the ring, position) for each unfinished frame that a key worker has claimed."""
        for stream, ring in zip(self.start.streams, self.rings):
            shape = self._ring_shape(stream)  # a faulty worker may have overwritten the offsets in the header
            frames = ring.view(structs.FRAME, shape.frames_offset, structs.MAX_FRAMES)
            words = ring.view(structs.RING_TABLE, shape.tables_offset, len(stream.tables))["words"]
            for place in range(structs.MAX_FRAMES):
                # Check the words first. If a word is SUBMITTED, the dead worker's claim cannot change. A finished
                # frame may be freed and refilled at any time.
                if (words[:, place] == SUBMITTED).any() and frames["claim"][place] == generation:
                    yield stream.stream, frames, place

    def trainer_waits(self) -> Tuple[int, int]:
        """Return why the trainer waits (WAIT_*), and the number of the table for which it waits, or -1 for no table."""
        bell_of_trainer = self.session.view(structs.BELL, structs.SESSION_BELLS_OFFSET, structs.BELLS)[
            structs.BELL_TRAINER]
        return int(bell_of_trainer["waits_for"]), int(bell_of_trainer["waits_table"])

    def ring_all(self) -> None:
        """Ring every bell."""
        for index in range(structs.BELLS):
            bell.ring_plain(self.session.array, index)

    def close(self) -> None:
        """Unmap and close all segments and row files. Further calls do nothing."""
        for number in list(self._row_files):
            self._close_row_files(number)
        fds = [made.fd for made in self._segments]
        self._segments = []
        self.rings = []
        self.tables = []
        self.session = Segment(-1, 0, None)
        for fd in fds:
            os.close(fd)

    def _stream_fields(self) -> List[Dict[str, Any]]:
        return [{"stream": stream.stream, "channel": stream.channel, "tables": list(stream.tables), "bytes": ring.size}
                for stream, ring in zip(self.start.streams, self.rings)]

    def _bell(self, index: int) -> Any:
        return self.session.view(structs.BELL, structs.SESSION_BELLS_OFFSET + index * structs.BELL.itemsize)[0]


_BELLS = {KEY: structs.BELL_KEY_WORKERS, TABLE: structs.BELL_TABLE_WORKERS, DISK: structs.BELL_DISK_WORKER}


def bell_of(worker: Worker) -> int:
    """Return the index of a worker's bell."""
    return _BELLS[worker.kind] + worker.index


def _cut(text: str, size: int) -> bytes:
    """Encode the start of a string as at most ``size`` bytes of UTF-8, without splitting a character."""
    return text.encode("utf-8", "replace")[:size].decode("utf-8", "ignore").encode()


def _name_of(stream: messages.Stream) -> str:
    return "the ring of stream {}".format(stream.stream)
