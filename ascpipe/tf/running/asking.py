"""Saves, loads and changes of tables of several ranks: rank 0 asks for them between two steps, the others follow.

Whatever the other ranks' programs do then: a rank that trains does it before its next step, one that waits in Python
does it at once, in a thread of its own.
"""
import collections
import contextlib
import ctypes
import json
import logging
import threading
import time
from typing import Any, Callable, Deque, Dict, Iterator, List, Mapping, Optional

from ascpipe.tf.running import native

#: Carries out what rank 0 asks for, by its number and what it says. Returns the answer; None: it is given later. For
#: ``ENDED``: a name for what has ended, or None.
Handler = Callable[[int, Dict[str, Any]], Optional[str]]

ENDED = "ended"  #: handler of how it has ended, by its number and what rank 0 tells
PATIENCE_S = 10.0  #: of a rank whose program saves, for rank 0 to do anything

_SAVE, _CHANGE, _END, _NOTHING = 0, 1, 3, -1
_GOES_ON, _ASKS, _NEITHER = 0, 1, -1
_TEXT_BYTES = 1 << 18
_POLL_MS = 200
_SOON_S = 0.01
_REMEMBERED = 16  # names of what has ended
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0  # between two exchanges for answers

_log = logging.getLogger(__name__)


class RefusedError(Exception):
    """Another rank could not do what rank 0 asked for.

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

    def __init__(self, number: int) -> None:
        self._number = number
        self.is_told = False

    def answers(self) -> List[str]:
        """What each other rank answers, from rank 1 on; waits until all have.

        Raises:
            RefusedError: the first one that could not do it.
            tf.errors.OpError: the ranks do not exchange any more.
        """
        pause = _FIRST_PAUSE_S
        while True:
            said = _text("asc_ranks_collect", self._number).splitlines()
            if said:
                break
            time.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE_S)
        for rank, answer in enumerate(said, 1):
            if not answer.startswith("+"):
                raise RefusedError(rank, answer[1:])
        return [answer[1:] for answer in said]

    def tell(self, how: Dict[str, Any], *, differs: bool = False) -> None:
        """Tell the other ranks how it has ended; ``differs``: they have changed tables, and this rank has not."""
        self.is_told = True
        native.call("asc_ranks_tell", self._number, json.dumps(how).encode(), int(differs))


@contextlib.contextmanager
def asked(what: Dict[str, Any], *, changes: bool) -> Iterator[Asked]:
    """Let the other ranks do something too, on rank 0, between two steps. They have begun when this yields.

    Args:
        what: names its handler in ``"what"``; the rest is for the handler. It goes to the other ranks as JSON.
        changes: whether tables change, so that evaluations which have read them fail.

    Raises:
        tf.errors.OpError: a rank has failed, has ended, or does not come in time; no rank does anything.
    """
    number = ctypes.c_int64()
    native.call("asc_ranks_ask", int(changes), json.dumps(what).encode(), ctypes.byref(number))
    it = Asked(number.value)
    try:
        yield it
    except BaseException:
        it.tell({"what": what["what"], "done": False}, differs=changes)
        raise
    if not it.is_told:
        it.tell({"what": what["what"], "done": changes})


class Follower:
    """The thread of a rank but 0 that does what rank 0 asks for. To be closed.

    Args:
        handlers: by what rank 0 says, and ``ENDED``.
    """

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._stops = threading.Event()
        self._changed = threading.Condition()
        self._does: Optional[int] = None  # the number of what has not ended
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
            tf.errors.OpError: the ranks do not exchange any more, or the program of one fails.
        """
        seen, begins, until = ctypes.c_int64(), 1, time.monotonic() + patience_s
        while not self._has_ended(name):
            native.call("asc_ranks_look", begins, _POLL_MS, ctypes.byref(seen))
            begins = int(seen.value != _NEITHER)
            if seen.value == _GOES_ON:
                with self._changed:  # the thread may still be told of the end
                    self._changed.wait_for(lambda: self._does is None, _POLL_MS / 1000.0)
                return self._has_ended(name)
            if seen.value == _ASKS:
                with self._changed:
                    self._changed.wait_for(lambda: name in self._ended, _SOON_S)
            if seen.value == _ASKS or self._does is not None:
                until = time.monotonic() + patience_s
            if time.monotonic() > until:
                return False
        return True

    def _has_ended(self, name: str) -> bool:
        with self._changed:
            return name in self._ended

    def _serve(self) -> None:
        number, phase = ctypes.c_int64(), ctypes.c_int64()
        while not self._stops.is_set():
            text = _text("asc_ranks_asked", _POLL_MS, ctypes.byref(number), ctypes.byref(phase))
            if phase.value == _END and text:
                self._note(None, self._handlers[ENDED](number.value, json.loads(text)))
            elif phase.value in (_SAVE, _CHANGE):
                self._note(number.value)
                self._follow(number.value, text, changes=phase.value == _CHANGE)

    def _note(self, does: Optional[int], ended: Optional[str] = None) -> None:
        with self._changed:
            self._does = does
            if ended is not None:
                self._ended.append(ended)
            self._changed.notify_all()

    def _follow(self, number: int, text: str, *, changes: bool) -> None:
        what = json.loads(text)
        done = False
        try:
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
