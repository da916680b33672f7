"""Saves, loads and changes of tables of several ranks: rank 0 asks for them between two steps, the others follow.

Whatever the other ranks' programs do then: a rank that trains does it before its next step, one that waits in Python
does it at once, in a thread of its own.

Questions may overlap: a save in the background is answered long after later ones. So whatever belongs to a question is
kept by its number, from ASK to END. Each wait for another rank ends when that rank has made no progress with its part
for ``wait_timeout_s``. Progress is the processor time of the threads that do the part, which headers contain.
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
from ascpipe.tf.running import native
from ascpipe.tf.running.late_lines import LateLines

#: Carries out what rank 0 asks for, by its number and what it says. Returns the answer; None: it is given later. For
#: ``ENDED``: a name for what has ended, or None.
Handler = Callable[[int, Dict[str, Any]], Optional[str]]

ENDED = "ended"  #: handler of how it has ended, by its number and what rank 0 tells
PATIENCE_S = 10.0  #: of a rank whose program saves, for rank 0 to do anything

_SAVE = 0
_CHANGE = 1
_END = 3
_GOES_ON = 0
_ASKS = 1
_IS_BUSY = 2
_NEITHER = -1
_TEXT_BYTES = 1 << 18
_POLL_MS = 200
_SOON_S = 0.01
_REMEMBERED = 16  # names of what has ended
# Between two exchanges for answers
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 1.0
_LATER_S = 10.0  # rank 0 gives up first, and this rank waits for the END that rank 0 then sends

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """Another rank could not do what rank 0 asked for, or makes no progress with it.

    Attributes:
        rank: which.
        reason: what it says.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(rank, reason)
        self.rank = rank
        self.reason = reason

    def __str__(self) -> str:
        return "rank {}: {}".format(self.rank, self.reason)


class Asked:
    """What rank 0 has asked for; all other ranks do it, or have done it. Made by ``asked``.

    Attributes:
        is_told: whether they know how it has ended.
    """

    def __init__(self, number: int, about: str, limit_s: float) -> None:
        self._number = number
        self._about = about
        self._limit_s = limit_s
        self.is_told = False

    def answers(self) -> List[str]:
        """What each other rank answers, from rank 1 on; waits until all have.

        Raises:
            RefusedError: the first one that could not do it, or one without progress for the limit.
            tf.errors.OpError: the ranks do not exchange any more.
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
        """Log for which ranks this rank waits, and raise an error for a rank that makes no progress."""
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
        """Tell the other ranks how it has ended; ``differs``: they have changed tables, and this rank has not."""
        self.is_told = True
        native.call("asc_ranks_tell", self._number, json.dumps(how).encode(), int(differs))


@contextlib.contextmanager
def asked(what: Dict[str, Any], *, changes: bool, about: str, limit_s: float) -> Iterator[Asked]:
    """Let the other ranks do something too, on rank 0, between two steps. They have begun when this yields.

    Args:
        what: names its handler in ``"what"``; the rest is for the handler. It goes to the other ranks as JSON.
        changes: whether tables change, so that evaluations which have read them fail.
        about: the same for people.
        limit_s: timeout in seconds without progress of a rank.

    Raises:
        tf.errors.OpError: a rank has failed, has ended, or does not come in time; no rank does anything.
    """
    number = ctypes.c_int64()
    native.call("asc_ranks_ask", int(changes), json.dumps(what).encode(), ctypes.byref(number))
    it = Asked(number.value, about, limit_s)
    try:
        yield it
    except BaseException:
        it.tell({"what": what["what"], "done": False}, differs=changes)
        raise
    if not it.is_told:
        it.tell({"what": what["what"], "done": changes})


@contextlib.contextmanager
def working(ranks: int) -> Iterator[None]:
    """Count the processor time of this thread as progress with a question of rank 0, which other ranks see.

    Args:
        ranks: number of ranks; nothing is counted if it is 1.
    """
    if ranks == 1:
        yield
        return
    number = native.number("asc_ranks_begin_work")
    try:
        yield
    finally:
        with contextlib.suppress(tf.errors.CancelledError):  # the pipeline has ended
            native.call("asc_ranks_end_work", number)


class Follower:
    """The thread of a rank but 0 that does what rank 0 asks for. To be closed.

    Args:
        handlers: by what rank 0 says, and ``ENDED``.
        limit_s: how long no rank may go on with what rank 0 has asked for, when this one waits for its end.
    """

    def __init__(self, handlers: Mapping[str, Handler], limit_s: float) -> None:
        self._handlers = handlers
        self._limit_s = limit_s
        self._stops = threading.Event()
        self._changed = threading.Condition()
        self._open: Set[int] = set()  # numbers of what has not ended
        self._ended: Deque[str] = collections.deque(maxlen=_REMEMBERED)
        # A daemon thread: the end of the pipeline, at exit at the latest, ends it.
        self._thread = threading.Thread(target=self._serve, name="ascpipe-follow", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread, after what it does now."""
        self._stops.set()
        self._thread.join()

    def await_end(self, name: str, patience_s: float = PATIENCE_S) -> bool:
        """Wait until what rank 0 lets this rank do has ended.

        Args:
            name: as the handler of ``ENDED`` returns it.
            patience_s: how long rank 0 may do nothing.

        Returns:
            False: rank 0 does not do it, but goes on; or it has done nothing for so long.

        Raises:
            tf.errors.OpError: the ranks do not exchange any more, the program of one fails, or no rank has made
                progress with what rank 0 has asked for.
        """
        seen = ctypes.c_int64()
        silence_ms = ctypes.c_int64()
        begins = 1
        lines = LateLines()
        until = time.monotonic() + patience_s
        while not self._has_ended(name):
            native.call("asc_ranks_look", begins, _POLL_MS, ctypes.byref(seen), ctypes.byref(silence_ms))
            begins = int(seen.value != _NEITHER)
            if seen.value == _GOES_ON:
                with self._changed:  # the thread may still be told of the end
                    self._changed.wait_for(lambda: not self._open, _POLL_MS / 1000.0)
                return self._has_ended(name)
            if seen.value == _ASKS:
                with self._changed:
                    self._changed.wait_for(lambda: name in self._ended, _SOON_S)
            if seen.value == _ASKS or self._open:
                until = time.monotonic() + patience_s
            self._check_progress(name, silence_ms.value / 1000.0, lines)
            if time.monotonic() > until:
                return False
        return True

    def _check_progress(self, name: str, silence_s: float, lines: LateLines) -> None:
        """Log that this rank waits for rank 0, and raise an error if no rank makes progress."""
        waited = lines.waited_s()
        if min(silence_s, waited) >= self._limit_s + _LATER_S:
            raise tf.errors.FailedPreconditionError(
                None, None, "{}: rank 0 has not said how {} has ended, and no rank has made progress with it for "
                "{:g} s (wait_timeout_s). What was saved before is whole; restart all ranks from the last "
                "checkpoint".format(
                    RANKS_LATE.code, name, self._limit_s))
        if lines.is_due():
            _log.warning("this rank has waited %.0f s for rank 0 to say that %s is saved", waited, name)

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
            _log.error("rank 0 asked for a %s, which has failed: %s", what["what"], error)
            refuse(number, error)
        finally:
            native.call("asc_ranks_resume", number, int(changes and done))


def answer(number: int, said: str) -> None:
    """Answer what rank 0 asked for, in one line."""
    native.call("asc_ranks_answer", number, ("+" + said).encode())


def refuse(number: int, error: BaseException) -> None:
    """Let rank 0 raise what went wrong."""
    native.call("asc_ranks_answer", number, ("-" + " ".join(str(error).split())).encode())


def leave(cause: str) -> None:
    """Say that this rank ends, and wait for the others; until then it does what rank 0 asks for.

    Args:
        cause: of a program that fails, for the errors of the others; "" of one that does not.
    """
    native.call("asc_ranks_leave", cause.encode())


def _text(name: str, *arguments: Any) -> str:
    """Call a function whose last parameters take a text."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    native.call(name, *arguments, text, _TEXT_BYTES)
    return text.value.decode("utf-8", "replace")
