"""Class ``Tracing``, which starts and stops the recording of spans for ``ascpipe timeline``.

Workers are notified when recording starts and stops, so recording has no overhead while it is off. A trainer with
several ranks always records its exchanges, in a file that the trainer receives with its segments.
"""
import contextlib
import logging
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ascpipe.config import Settings
from ascpipe.control import messages
from ascpipe.daemon.worker_identity import DISK, Worker
from ascpipe.errors import WrongStateError
from ascpipe.names import RunDir
from ascpipe.shm import exchange_spans

_log = logging.getLogger("ascpipe.daemon")

_EXCHANGES = 20_000  # number of spans of exchanges if the setting is 0


class Tracing:
    """State of recording. Recording starts immediately if the setting ``timeline_spans`` is not 0."""

    def __init__(self, run: RunDir, settings: Settings) -> None:
        self._run = run
        self._exchanges = settings.timeline_spans or _EXCHANGES
        self._spans = settings.timeline_spans
        self._since_ns = time.time_ns() if self._spans else 0
        self._until_ns = 0

    def start(self, spans: int) -> None:
        """Discard old spans, and start recording the newest ``spans`` spans of each worker.

        Raises:
            WrongStateError: recording has already started.
        """
        if self._spans:
            raise WrongStateError("start a trace", "recording", "it keeps {} spans of each worker since {}".format(
                self._spans, time.strftime("%H:%M:%S", time.localtime(self._since_ns // 10**9))))
        for name in self._run.span_files():
            os.unlink(os.path.join(self._run.path, name))
        self._spans = spans
        self._since_ns = time.time_ns()
        self._until_ns = 0

    def stop(self) -> None:
        """Stop recording. Recorded spans are kept until recording starts again or the daemon exits.

        Raises:
            WrongStateError: recording has not started.
        """
        if not self._spans:
            raise WrongStateError("stop the trace", "not recording", "start one with: ascpipe trace start")
        self._spans = 0
        self._until_ns = time.time_ns()

    def told(self) -> Dict[str, Any]:
        """Return the state of recording for ``status``.

        ``spans`` is the number of spans kept per worker, or 0 if recording is off. ``since_ns`` and
        ``until_ns`` are the start and end of the last recording. ``since_ns`` is 0 if no recording was started, and
        ``until_ns`` is 0 if the last recording was not stopped.
        """
        return {"spans": self._spans, "since_ns": self._since_ns, "until_ns": self._until_ns}

    def body_of(self, worker: Worker) -> Optional[Dict[str, Any]]:
        """Return the file and the number of spans for a worker, or None if the worker does not record."""
        if not self._spans or worker.kind == DISK:
            return None
        return {"path": self._run.worker_spans(str(worker)), "count": self._spans}

    @contextlib.contextmanager
    def exchange_spans(self, body: messages.Start, trainer_pid: int) -> Iterator[Tuple[List[int], int]]:
        """Context manager that creates the file for exchanges. It yields (list with the file's descriptor, size of the
        file).

        It yields an empty list and 0 if there is one rank, or if the file cannot be created and recording is off.
        """
        with contextlib.suppress(FileNotFoundError):  # file of an earlier trainer
            os.unlink(self._run.exchange_spans)
        if all(stream.rank_size == 1 for stream in body.streams):
            yield [], 0
            return
        try:
            fd, size = exchange_spans.create(self._run.exchange_spans, self._exchanges, trainer_pid)
        except OSError as error:
            if self._spans:
                raise
            _log.warning("exchanges cannot be recorded: %s", error)  # the user has not requested it, so continue
            yield [], 0
            return
        try:
            yield [fd], size
        finally:
            os.close(fd)
