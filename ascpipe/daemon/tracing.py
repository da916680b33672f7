"""Class ``Tracing``, which starts and stops the recording of spans for ``ascpipe timeline``.

Workers are notified when recording starts and stops, so recording has no overhead while it is off. A trainer always
records the batches that it reads and, with several ranks, its exchanges. The trainer receives the span files together
with the segments.
"""
import contextlib
import logging
import os
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from ascpipe.config import Settings
from ascpipe.control import messages
from ascpipe.daemon.worker_identity import DISK, Worker
from ascpipe.errors import WrongStateError
from ascpipe.layout import structs
from ascpipe.names import RunDir
from ascpipe.shm import trainer_spans

_log = logging.getLogger("ascpipe.daemon")

_EXCHANGES = 20_000  # number of spans of exchanges if the setting is 0
_BATCHES = 4_000  # number of spans of read batches if the setting is 0
_OF_DASHBOARD = 2_000  # number of spans of a worker if the setting is 0 and the dashboard shows them


class Tracing:
    """State of the recording of spans. Recording starts immediately if the setting ``timeline_spans`` or ``dashboard``
    is not 0.
    """

    def __init__(self, run: RunDir, settings: Settings) -> None:
        self._run = run
        self._spans = settings.timeline_spans or (_OF_DASHBOARD if settings.dashboard else 0)
        self._since_ns = time.time_ns() if self._spans else 0
        self._until_ns = 0

    def start(self, spans: int) -> None:
        """Discard old spans, and start recording. For each worker, the newest ``spans`` spans are kept.

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
        """Stop recording. The recorded spans are kept until the recording is started again or the daemon exits.

        Raises:
            WrongStateError: recording has not started.
        """
        if not self._spans:
            raise WrongStateError("stop the trace", "not recording", "start one with: ascpipe trace start")
        self._spans = 0
        self._until_ns = time.time_ns()

    def told(self) -> Dict[str, Any]:
        """Return the state of the recording, for the answer to ``status``.

        ``spans`` is the number of spans kept per worker, or 0 if recording is off. ``since_ns`` and
        ``until_ns`` are the start and end of the last recording. ``since_ns`` is 0 if no recording was started, and
        ``until_ns`` is 0 if the last recording was not stopped.
        """
        return {"spans": self._spans, "since_ns": self._since_ns, "until_ns": self._until_ns}

    def body_of(self, worker: Worker) -> Optional[Dict[str, Any]]:
        """Return the span file of a worker and the number of spans to keep, or None if the worker must not record
        spans.
        """
        if not self._spans or worker.kind == DISK:
            return None
        return {"path": self._run.worker_spans(str(worker)), "count": self._spans}

    @contextlib.contextmanager
    def trainer_spans(self, body: messages.Start, trainer_pid: int) -> Iterator[List[Tuple[int, int]]]:
        """Context manager that creates the span files of the trainer, and closes the file descriptors at the end of the
        block.

        It yields two pairs (descriptor, size), for the file of exchanges and for the file of read batches. The
        descriptor is -1 for exchanges of one rank, and for a file that cannot be created while recording is off.
        """
        ranks = any(stream.rank_size > 1 for stream in body.streams)
        with contextlib.ExitStack() as opened:
            yield [self._create(self._run.exchange_spans, structs.EXCHANGE_SPAN, _EXCHANGES if ranks else 0,
                                trainer_pid, opened),
                   self._create(self._run.reading_spans, structs.READING_SPAN, _BATCHES, trainer_pid, opened)]

    def _create(self, path: str, span: np.dtype, count: int, pid: int, opened: contextlib.ExitStack) -> Tuple[int, int]:
        with contextlib.suppress(FileNotFoundError):  # file of an earlier trainer
            os.unlink(path)
        if not count:
            return -1, 0
        try:
            fd, size = trainer_spans.create(path, span, self._spans or count, pid)
        except OSError as error:
            if self._spans:
                raise
            _log.warning("the trainer cannot record spans: %s", error)  # the user has not requested spans, so continue
            return -1, 0
        opened.callback(os.close, fd)
        return fd, size
