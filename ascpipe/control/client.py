"""Client of the control plane, which sends one request and waits for the reply, with a timeout."""
import contextlib
import os
import secrets
import select
import socket
import struct
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ascpipe import names
from ascpipe.control import codec, fdsocket, messages
from ascpipe.control.child import Stops
from ascpipe.control.lock import holder_of, is_held, is_listening
from ascpipe.errors import MessageError, NoAnswerError, NotRunningError
from ascpipe.names import RunDir

TIMEOUT_S = 10.0
_CHECK_S = 0.2  # seconds between checks that the daemon is alive
_RETRY_S = 0.005  # seconds before the next attempt
_CREDENTIALS = struct.Struct("3i")


def ask(run: RunDir, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
    """Send a request to the daemon of ``run`` and return the body of the reply. Close all received descriptors.

    Each call opens and closes a connection, so later forks of the program inherit no connection.

    Raises:
        NotRunningError: no daemon is running, or it exited before it replied.
        RunDirError: other users can access the run directory.
        NoAnswerError: there was no reply within ``timeout_s``, or a signal stopped the daemon for ``TIMEOUT_S``.
        MessageError: the reply is invalid.
        AscpipeError: the daemon replied with this error.
    """
    with asked(run, body, timeout_s) as (answer, _):
        return answer


@contextlib.contextmanager
def asked(run: RunDir, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Iterator[Tuple[Dict[str, Any], List[int]]]:
    """Context manager that sends a request like ``ask``, and yields the reply's body and file descriptors.

    The descriptors are closed at the end of the block.
    """
    request_id = secrets.randbits(62)
    request = messages.request_bytes(request_id, body)
    deadline = time.monotonic() + timeout_s
    while True:
        check_running(run)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            answer = _exchange(sock, run, request, deadline, messages.verb_of(body))
        if answer is not None:
            break
        if time.monotonic() >= deadline:
            raise NoAnswerError(run.name, holder_of(run) or "?", messages.verb_of(body), timeout_s)
        time.sleep(_RETRY_S)
    try:
        yield _body_of(answer[0], request_id), answer[1]
    finally:
        for fd in answer[1]:
            os.close(fd)


def running_daemons() -> List[str]:
    """Return the names of this user's running daemons. Raise the errors of ``names.known_names``."""
    return [name for name in names.known_names() if is_held(RunDir(name))]


def _exchange(sock: socket.socket, run: RunDir, request: bytes, deadline: float,
              verb: str) -> Optional[Tuple[bytes, List[int]]]:
    """Return the reply and its file descriptors, or None if the deadline passed or the daemon did not read the request.
    """
    try:
        fdsocket.connect(sock, run.control, max(0.001, deadline - time.monotonic()))
        sock.send(request, socket.MSG_NOSIGNAL)
    except OSError:  # the daemon is starting, exiting or busy
        return None
    pid, _, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    stops = Stops(pid)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while time.monotonic() < deadline:
        if not poll.poll(1 + int(1000 * min(_CHECK_S, max(0.0, deadline - time.monotonic())))):
            check_running(run)
            if stops.seconds() >= TIMEOUT_S:
                raise NoAnswerError(run.name, pid, verb, TIMEOUT_S)
            continue
        try:
            answer, ancillary, _, _ = sock.recvmsg(codec.MESSAGE_BYTES + 1, fdsocket.ANCILLARY_BYTES,
                                                   socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # closed before the request was read
            return None
        if answer:
            return answer, fdsocket.descriptors(ancillary)
        check_running(run)  # the request was read, but the daemon exits or could not reply
        time.sleep(_RETRY_S)
    return None


def _body_of(answer: bytes, request_id: int) -> Dict[str, Any]:
    reply = messages.parse_reply(answer)
    if reply.id not in (request_id, 0):  # the id is 0 if the daemon could not read the request
        raise MessageError("it answers request {}, this is {}".format(reply.id, request_id))
    if reply.error is not None:
        raise reply.error
    return reply.body


def check_run_directory(run: RunDir) -> None:
    """Check that a run directory exists and is private.

    Raise NotRunningError if the directory is missing. Raise RunDirError if other users can access the directory or its
    parent directory.
    """
    try:
        for path in (os.path.dirname(run.path), run.path):
            names.check_private_dir(path)
    except FileNotFoundError:
        raise NotRunningError(run.name, run.path) from None


def check_running(run: RunDir) -> None:
    """Call ``check_run_directory``. Raise NotRunningError unless a daemon holds the lock file or listens on the
    lifeline.
    """
    check_run_directory(run)
    if not is_held(run) and not is_listening(run.lifeline):  # a running daemon's lock file may have been removed
        raise NotRunningError(run.name, run.path)
