"""Requests that rank 0 sends to the other ranks between two steps: saves, loads and changes of tables.

On every other rank, a thread executes the request. If the rank trains, the thread executes the request before the next
step. Otherwise, the thread executes the request immediately. Requests may overlap, because the answer to a background
save arrives late. Therefore, each rank stores the data of a request under the request's number until rank 0 sends END.
A wait for a rank fails if the rank makes no progress for ``wait_timeout_s``. Progress is measured as CPU time of the
threads that execute the request, which is sent in message headers.
"""
import collections
import contextlib
import ctypes
import json
import logging
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Set

import tensorflow as tf

from ascpipe.layout.codes import RANKS_LATE
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.running import native
from ascpipe.tf.running.late_lines import LateLines

#: Function that executes a request, given its number and content. It returns the answer, or None if the answer is sent
#: later. The handler of ``ENDED`` returns a name for the finished request, or None.
Handler = Callable[[int, Dict[str, Any]], Optional[str]]

ENDED = "ended"  #: name of the handler that receives the result of a request when it ends
PATIENCE_S = 10.0  #: timeout of a wait while rank 0 sends nothing

_SAVE = 0
_CHANGE = 1
_END = 3
_CONTINUES = 0
_REQUESTS = 1
_BUSY = 2
_NOTHING_YET = -1
_TEXT_BYTES = 1 << 18
_POLL_MS = 200
_SOON_S = 0.01
_NOT_ASKED = -1  # number of no request
_REMEMBERED = 16  # maximum number of stored names of finished requests
# Pauses between exchanges that collect answers.
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 1.0
_LATER_S = 10.0  # extra timeout, so that rank 0 times out first and sends END to this rank

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """Error of a request of rank 0. Another rank has failed to execute the request, or makes no progress with it."""

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)
        self.rank = rank
        self.reason = reason

    def __str__(self) -> str:
        return "rank {}: {}".format(self.rank, self.reason)


class Asked:
    """A request of rank 0 that all other ranks have received. ``asked`` creates an object.

    Attributes:
        result_is_sent: True if rank 0 has sent the result to the other ranks.
    """

    def __init__(self, number: int, about: str, limit_s: float) -> None:
        self._number = number
        self._about = about
        self._limit_s = limit_s
        self.result_is_sent = False

    def answers(self) -> List[str]:
        """Wait for the answers of the other ranks. Return the answers in the order of the ranks.

        Raises:
            RefusedError: a rank has failed, or has made no progress within the limit.
            tf.errors.OpError: the ranks have stopped their exchanges.
        """
        pause = _FIRST_PAUSE_S
        lines = LateLines()
        while True:
            said = _text("asc_ranks_collect", self._number).split("\n")[:-1]
            late = {rank: answer[1:] for rank, answer in enumerate(said, 1) if answer.startswith("?")}
            if not late:
                break
            self._check_progress(late, lines)
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)
        for rank, answer in enumerate(said, 1):
            if not answer.startswith("+"):
                raise RefusedError(rank, answer[1:])
        return [answer[1:] for answer in said]

    def _check_progress(self, late: Mapping[int, str], lines: LateLines) -> None:
        """Raise ``RefusedError`` if a rank makes no progress. Log the wait if a log line is due."""
        waited = lines.waited_s()
        for rank, text in late.items():
            silence_ms, _, state = text.partition(" ")
            if min(float(silence_ms) / 1000.0, waited) >= self._limit_s:
                raise RefusedError(rank, "it has made no progress with {} for {:g} s (wait_timeout_s): {}".format(
                    self._about, self._limit_s, state))
        if lines.is_due():
            _log.warning("%s has waited %.0f s for %s", self._about, waited,
                         "; ".join(text.partition(" ")[2] for text in late.values()))

    def tell(self, how: Dict[str, Any], *, differs: bool = False) -> None:
        """Send the result of the request to the other ranks.

        Args:
            how: the result, which is sent as JSON.
            differs: True if the other ranks have changed tables that this rank has not changed. All ranks must then
                stop training.
        """
        self.result_is_sent = True
        native.call("asc_ranks_tell", self._number, json.dumps(how).encode(), int(differs))


@interruptible
def asked(what: Dict[str, Any], *, changes: bool, about: str, limit_s: float) -> Iterator[Asked]:
    """Send a request from rank 0 to the other ranks between two steps.

    All ranks have received the request when the block starts. After the block, rank 0 sends the result to the other
    ranks, unless the block has called ``tell``.

    Args:
        what: dict with the name of the handler in ``"what"`` and the arguments of the handler. It is sent as JSON.
        changes: True if tables change. Evaluations that have already read these tables then fail.
        about: description for error messages.
        limit_s: timeout in seconds without progress of a rank.

    Raises:
        tf.errors.OpError: a rank has failed, has ended, or does not receive the request in time. No rank executes the
            request.
    """
    number = ctypes.c_int64(_NOT_ASKED)
    try:
        native.call("asc_ranks_ask", int(changes), json.dumps(what).encode(), ctypes.byref(number))
        it = Asked(number.value, about, limit_s)
        yield it
    except BaseException:
        if number.value != _NOT_ASKED:
            Asked(number.value, about, limit_s).tell({"what": what["what"], "done": False}, differs=changes)
        raise
    if not it.result_is_sent:
        it.tell({"what": what["what"], "done": changes})


@interruptible
def working(ranks: int) -> Iterator[None]:
    """Count CPU time of this thread in the block as progress with a request. Do nothing if ``ranks`` is 1."""
    if ranks == 1:
        yield
        return
    with native.acquired("asc_ranks_begin_work", release=_end_work, what="a request"):
        yield


def _end_work(number: Any) -> None:
    with contextlib.suppress(tf.errors.CancelledError):  # the pipeline has ended
        native.call("asc_ranks_end_work", number)


class Follower:
    """Thread that executes requests of rank 0 on another rank. The caller must call ``close``.

    Args:
        handlers: handlers by name of the request, including ``ENDED``.
        limit_s: timeout in seconds of ``await_end`` without progress of any rank.
    """

    def __init__(self, handlers: Mapping[str, Handler], limit_s: float) -> None:
        self._handlers = handlers
        self._limit_s = limit_s
        self._stops = threading.Event()
        self._changed = threading.Condition()
        self._open: Set[int] = set()  # numbers of unfinished requests
        self._ended: Deque[str] = collections.deque(maxlen=_REMEMBERED)
        # A daemon thread, because it is stopped when the pipeline ends, at the latest when the process exits.
        self._thread = threading.Thread(target=self._serve, name="ascpipe-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread when its current request is done."""
        self._stops.set()
        self._thread.join()

    def await_end(self, name: str, patience_s: float = PATIENCE_S) -> bool:
        """Wait until a request of rank 0 has ended.

        Args:
            name: name that the handler of ``ENDED`` returns for the request.
            patience_s: timeout in seconds while rank 0 sends nothing.

        Returns:
            False if rank 0 has continued without this request, or has sent nothing for ``patience_s``.

        Raises:
            tf.errors.OpError: the ranks have stopped their exchanges, a rank has failed, or no rank makes progress.
        """
        seen = ctypes.c_int64()
        silence_ms = ctypes.c_int64()
        begins = 1
        lines = LateLines()
        until = time.monotonic() + patience_s
        while not self._has_ended(name):
            native.call("asc_ranks_look", begins, _POLL_MS, ctypes.byref(seen), ctypes.byref(silence_ms))
            begins = int(seen.value != _NOTHING_YET)
            if seen.value == _CONTINUES:
                with self._changed:  # the thread may still receive the end of the request
                    self._changed.wait_for(lambda: not self._open, _POLL_MS / 1000.0)
                return self._has_ended(name)
            if seen.value == _REQUESTS:
                with self._changed:
                    self._changed.wait_for(lambda: name in self._ended, _SOON_S)
            if seen.value == _REQUESTS or self._open:
                until = time.monotonic() + patience_s
            self._check_progress(name, silence_ms.value / 1000.0, lines)
            if time.monotonic() > until:
                return False
        return True

    def _check_progress(self, name: str, silence_s: float, lines: LateLines) -> None:
        """Raise an error if no rank makes progress. Log the wait if a log line is due."""
        waited = lines.waited_s()
        if min(silence_s, waited) >= self._limit_s + _LATER_S:
            raise tf.errors.FailedPreconditionError(
                None, None, "{}: rank 0 has not reported the result of {}, and no rank has made progress with it for "
                "{:g} s (wait_timeout_s). Earlier checkpoints are complete. Restart all ranks from the last "
                "checkpoint".format(RANKS_LATE.code, name, self._limit_s))
        if lines.is_due():
            _log.warning("this rank has waited %.0f s for rank 0 to report that %s is saved", waited, name)

    def _has_ended(self, name: str) -> bool:
        with self._changed:
            return name in self._ended

    def _serve(self) -> None:
        number = ctypes.c_int64()
        phase = ctypes.c_int64()
        while not self._stops.is_set():
            text = _text("asc_ranks_asked", _POLL_MS, ctypes.byref(number), ctypes.byref(phase))
            if phase.value == _END:
                self._note_end(number.value, self._handlers[ENDED](number.value, json.loads(text)))
            elif phase.value in (_SAVE, _CHANGE):
                with self._changed:
                    self._open.add(number.value)
                self._follow(number.value, text, changes=phase.value == _CHANGE)

    def _note_end(self, number: int, ended: Optional[str]) -> None:
        with self._changed:
            self._open.discard(number)
            if ended is not None:
                self._ended.append(ended)
            self._changed.notify_all()

    def _follow(self, number: int, text: str, *, changes: bool) -> None:
        what = json.loads(text)
        done = False
        try:
            with working(2):
                said = self._handlers[what["what"]](number, what)
            done = True
            if said is not None:
                answer(number, said)
        except Exception as error:  # noqa: BLE001  (any error: rank 0 raises it)
            _log.error("rank 0 requested a %s, which failed: %s", what["what"], error)
            refuse(number, error)
        finally:
            native.call("asc_ranks_resume", number, int(changes and done))


def answer(number: int, said: str) -> None:
    """Send the answer, one line of text, to a request of rank 0."""
    native.call("asc_ranks_answer", number, ("+" + said).encode())


def refuse(number: int, error: BaseException) -> None:
    """Send an error to rank 0. Rank 0 raises the error."""
    native.call("asc_ranks_answer", number, ("-" + " ".join(str(error).split())).encode())


def leave(cause: str) -> None:
    """Announce the end of this rank, and wait for the other ranks. This rank executes requests of rank 0 during the
    wait.

    Args:
        cause: cause of a failure of the program, for the errors of the other ranks, or "" for a normal end.
    """
    native.call("asc_ranks_leave", cause.encode())


def _text(name: str, *arguments: Any) -> str:
    """Call a native function that writes a string to a buffer, and return the string."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    native.call(name, *arguments, text, _TEXT_BYTES)
    return text.value.decode("utf-8", "replace")
