"""Session of a trainer, with functions that handle the requests to start, extend and end the session."""
import contextlib
import datetime
import gc
import logging
import os
import secrets
from typing import Any, Callable, Dict, List, Optional, Tuple

from ascpipe import __version__, errors
from ascpipe.control import fdsocket, messages
from ascpipe.daemon import events
from ascpipe.daemon.lifecycle import HAS_TRAINER, IDLE, REGISTERED, SERVING, Lifecycle
from ascpipe.daemon.lifelines import Lifeline, Lifelines
from ascpipe.daemon.session_memory import SessionMemory
from ascpipe.daemon.tracing import Tracing
from ascpipe.layout import structs
from ascpipe.layout.ticket import MOST_RUNS
from ascpipe.names import RunDir
from ascpipe.shm.segment import SHM_DIR


class Session:
    """Session of a trainer. The session has shared memory after the trainer has sent the request ``start``.

    Args:
        lifelines: unregistered connections.
        tracing: state of the recording of spans.
        life: state of the daemon.
        handle: function that handles events.
        make_memory: function that creates the memory of a session from the start request and the run number.

    Attributes:
        verbs: handlers of requests, by verb.
        pid: PID of the latest registered trainer.
        memory: memory of the session, or None.
    """

    def __init__(self, run: RunDir, lifelines: Lifelines, tracing: Tracing, life: Lifecycle,
                 handle: Callable[[events.Event], None],
                 make_memory: Callable[[messages.Start, int], SessionMemory]) -> None:
        self._log = logging.getLogger("ascpipe.daemon")
        self._run = run
        self._lifelines = lifelines
        self._tracing = tracing
        self._life = life
        self._handle = handle
        self._make_memory = make_memory
        self._trainer: Optional[Lifeline] = None
        self.pid = 0
        self._since = ""
        self._number = secrets.randbelow(MOST_RUNS)
        self.memory: Optional[SessionMemory] = None
        self.verbs: Dict[str, Callable[[Any], Dict[str, Any]]] = {
            "register": self._register, "start": self._start, "add_stream": self._add_stream,
            "add_table": self._add_table, "bye": self._bye}

    @property
    def connected_pid(self) -> Optional[int]:
        """Return the PID of the registered trainer, or None if no trainer is registered."""
        return None if self._trainer is None else self._trainer.pid

    def fds(self) -> List[int]:
        """Return the descriptors that become readable when the trainer exits."""
        return [] if self._trainer is None else self._trainer.fds()

    def told(self) -> Optional[Dict[str, Any]]:
        """Return a description of the trainer for ``status``, or None if no trainer is registered."""
        return None if self._trainer is None else {"pid": self.pid, "since": self._since, "run": self._number}

    def leave(self, how: str, *, died: bool = False) -> None:
        """End the session after the trainer sent ``bye`` or died."""
        self._log.info("trainer (pid %d) %s", self.pid, how)
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
        self._handle(events.TrainerGone(died))
        if self._life.state == IDLE:
            gc.collect()  # Python would otherwise keep the 1 to 2 KB of garbage of each session

    def close_memory(self) -> None:
        """Release the segments of the session, if there are any."""
        if self.memory is not None:
            self.memory.close()
            self.memory = None

    def close(self) -> None:
        """Release all resources."""
        if self._trainer is not None:
            self._trainer.close()
        self.close_memory()

    # ---- verbs

    def _register(self, body: messages.Register) -> Dict[str, Any]:
        if body.layout != structs.layout_hash():
            raise errors.VersionError(body.version, body.layout, __version__, structs.layout_hash())
        if self._life.state in HAS_TRAINER:
            raise errors.BusyError(self._run.name, self.pid, self._since)
        self._trainer = self._lifelines.take(body.pid, body.token)
        self.pid = body.pid
        self._since = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
        self._number = self._number % MOST_RUNS + 1
        self._handle(events.TrainerRegistered())
        self._log.info("trainer (pid %d) registered as run %d", body.pid, self._number)
        return {"run": self._number, "pid": os.getpid(), "name": self._run.name}

    def _start(self, body: messages.Start) -> Dict[str, Any]:
        trainer = self._trainer_with("start", body.token)
        if self._life.state != REGISTERED:
            raise errors.WrongStateError("start", self._life.state, "a trainer starts once, after it has registered")
        with contextlib.suppress(FileNotFoundError):  # the file belongs to an earlier session
            os.unlink(self._run.saves)
        with self._tracing.trainer_spans(body, self.pid) as spans:
            memory = self.memory = self._make_memory(body, self._number)
            memory.set_pid(structs.BELL_TRAINER, self.pid)
            memory.set_pid(structs.BELL_PUMP, self.pid)
            sizes = memory.sizes()
            sizes["spans_bytes"] = [size for _, size in spans]
            self._send_segments(trainer, memory.fds() + [fd for fd, _ in spans if fd >= 0], self.close_memory)
        self._handle(events.SessionStarted(any(table.disk_rows for table in body.tables)))
        kind = "memfds ({} is too small or read-only)".format(SHM_DIR) if memory.use_memfd else SHM_DIR
        self._log.info("session started, streams: %d, tables: %d, segments in %s", len(body.streams),
                       len(body.tables), kind)
        if self._life.error is not None:  # workers cannot run
            raise self._life.error
        return sizes

    def _add_stream(self, body: messages.AddStream) -> Dict[str, Any]:
        memory, trainer = self._serving("add_stream", body.token)
        ring = memory.add_stream(body.stream)
        self._send_segments(trainer, [ring.fd], memory.drop_stream)
        self._handle(events.StreamAdded(body.stream.stream))
        self._log.info("stream %d added, tables: %d, %d bytes", body.stream.stream, len(body.stream.tables), ring.size)
        return {"bytes": ring.size}

    def _add_table(self, body: messages.AddTable) -> Dict[str, Any]:
        memory, trainer = self._serving("add_table", body.token)
        made = memory.make_table(body.table)
        self._send_segments(trainer, [made.fd], lambda: memory.close_segment(made))
        memory.add_table(body.table, made)
        self._handle(events.TableAdded(body.table.table, body.table.disk_rows > 0))
        self._log.info("table %r added", body.table.name)
        return {"bytes": made.size}

    def _bye(self, body: messages.Bye) -> Dict[str, Any]:
        self._trainer_with("bye", body.token)
        self.leave("said bye")
        return {}

    def _send_segments(self, trainer: Lifeline, fds: List[int], take_back: Callable[[], None]) -> None:
        """Send segments to the trainer. Call ``take_back`` if that fails."""
        try:
            fdsocket.send(trainer.sock, {"verb": "segments"}, fds)
        except (errors.MessageError, OSError):
            take_back()
            raise

    def _trainer_with(self, verb: str, token: bytes) -> Lifeline:
        if self._trainer is None:
            raise errors.WrongStateError(verb, self._life.state, "no trainer is registered")
        if not secrets.compare_digest(self._trainer.token or b"", token):
            raise errors.PeerRefusedError(
                "{} does not come from the registered trainer (pid {}, since {}): it has another token. The session "
                "is not affected; only its trainer may change or end it. `ascpipe stop` stops the daemon".format(
                    verb, self.pid, self._since))
        return self._trainer

    def _serving(self, verb: str, token: bytes) -> Tuple[SessionMemory, Lifeline]:
        trainer = self._trainer_with(verb, token)
        if self._life.error is not None:
            raise self._life.error
        if self._life.state != SERVING or self.memory is None:
            raise errors.WrongStateError(verb, self._life.state,
                                         "streams and tables can be added only after the session has started")
        return self.memory, trainer
