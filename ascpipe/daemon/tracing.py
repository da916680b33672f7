"""What a daemon has its workers and its trainer record for ``ascpipe timeline``, from when on and until when.

Workers are told when it begins and when it ends, so one that does not record pays nothing.  A trainer of several ranks
gets the file of its exchanges with its segments: it records all of them, and the timeline shows those of the time.
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

_EXCHANGES = 20_000  # that are kept where the setting does not say


class Tracing:
    """Begins as the setting ``timeline_spans`` says.

    Args:
        run: where the files lie.
        settings: of the daemon.
    """

    def __init__(self, run: RunDir, settings: Settings) -> None:
        self._run = run
        self._exchanges = settings.timeline_spans or _EXCHANGES
        self._spans = settings.timeline_spans
        self._since_ns = time.time_ns() if self._spans else 0
        self._until_ns = 0

    def start(self, spans: int) -> None:
        """Keep the newest ``spans`` of each worker from now on, and none of before.

        Raises:
            WrongStateError: spans are kept already.
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
        """Keep no more; what was recorded stays until the next start, or the end of the daemon.

        Raises:
            WrongStateError: nothing is recorded.
        """
        if not self._spans:
            raise WrongStateError("stop the trace", "not recording", "start one with: ascpipe trace start")
        self._spans = 0
        self._until_ns = time.time_ns()

    def told(self) -> Dict[str, Any]:
        """For ``status``: ``spans`` that are kept of each worker, 0 = none; ``since_ns`` and ``until_ns`` of what was
        recorded last, 0 = never, or not yet."""
        return {"spans": self._spans, "since_ns": self._since_ns, "until_ns": self._until_ns}

    def body_of(self, worker: Worker) -> Optional[Dict[str, Any]]:
        """Where a worker is to record, and how many spans; None: it is to record nothing."""
        if not self._spans or worker.kind == DISK:
            return None
        return {"path": self._run.worker_spans(str(worker)), "count": self._spans}

    @contextlib.contextmanager
    def exchange_spans(self, body: messages.Start, trainer_pid: int) -> Iterator[Tuple[List[int], int]]:
        """The file for spans of exchanges: its descriptor and bytes; [] and 0 with one rank."""
        with contextlib.suppress(FileNotFoundError):  # of a trainer before
            os.unlink(self._run.exchange_spans)
        if all(stream.rank_size == 1 for stream in body.streams):
            yield [], 0
            return
        try:
            fd, size = exchange_spans.create(self._run.exchange_spans, self._exchanges, trainer_pid)
        except OSError as error:
            if self._spans:
                raise
            _log.warning("exchanges cannot be recorded: %s", error)  # not asked for: no reason to refuse the session
            yield [], 0
            return
        try:
            yield [fd], size
        finally:
            os.close(fd)
