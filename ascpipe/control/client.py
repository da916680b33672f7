"""Client of the control plane: sends one request and waits for its reply, with a timeout."""
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
from ascpipe.control.lock import is_held, is_listening
from ascpipe.errors import MessageError, NoAnswerError, NotRunningError
from ascpipe.names import RunDir

TIMEOUT_S = 10.0
_LOOK_S = 0.2  # between looks whether the daemon still lives
_AGAIN_S = 0.005  # before it is asked again
_CREDENTIALS = struct.Struct("3i")


def ask(run: RunDir, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
    """Ask the daemon of ``run`` and return the body of its answer; descriptors that come with it are closed.

    Connects anew each time, so nothing of it stays in a program that forks later.

    Raises:
        NotRunningError: there is none, or it ended before it answered.
        RunDirError: its directory is not ours alone.
        NoAnswerError: it lives and did not answer within ``timeout_s``, or was stopped by a signal for ``TIMEOUT_S``.
        MessageError: its answer is not one.
        AscpipeError: what it answered, by the class of its code.
    """
    with asked(run, body, timeout_s) as (answer, _):
        return answer


@contextlib.contextmanager
def asked(run: RunDir, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Iterator[Tuple[Dict[str, Any], List[int]]]:
    """As ``ask``: the answer, and the descriptors that came with it, which are closed at the end."""
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
            raise NoAnswerError(run.name, messages.verb_of(body), timeout_s)
        time.sleep(_AGAIN_S)
    try:
        yield _body_of(answer[0], request_id), answer[1]
    finally:
        for fd in answer[1]:
            os.close(fd)


def running_daemons() -> List[str]:
    """Names of this user's daemons that live; raises as ``names.known_names``."""
    return [name for name in names.known_names() if is_held(RunDir(name))]


def _exchange(sock: socket.socket, run: RunDir, request: bytes, deadline: float,
              verb: str) -> Optional[Tuple[bytes, List[int]]]:
    """The answer to a request and the descriptors with it; None if there is none by the deadline, or the daemon has
    not read the request."""
    try:
        fdsocket.connect(sock, run.control, max(0.001, deadline - time.monotonic()))
        sock.send(request, socket.MSG_NOSIGNAL)
    except OSError:  # it begins or ends, has no time, or needed the place of this connection for others
        return None
    pid, _, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    stops = Stops(pid)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while time.monotonic() < deadline:
        if not poll.poll(1 + int(1000 * min(_LOOK_S, max(0.0, deadline - time.monotonic())))):
            check_running(run)
            if stops.seconds() >= TIMEOUT_S:
                raise NoAnswerError(run.name, verb, TIMEOUT_S)
            continue
        try:
            answer, ancillary, _, _ = sock.recvmsg(codec.MESSAGE_BYTES + 1, fdsocket.ANCILLARY_BYTES,
                                                   socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # closed before the request was read
            return None
        if answer:
            return answer, fdsocket.descriptors(ancillary)
        check_running(run)  # it has read the request and closed: it ends, or has lost its answer
        time.sleep(_AGAIN_S)
    return None


def _body_of(answer: bytes, request_id: int) -> Dict[str, Any]:
    reply = messages.parse_reply(answer)
    if reply.id not in (request_id, 0):  # 0: a daemon that could not even read the id
        raise MessageError("it answers request {}, this is {}".format(reply.id, request_id))
    if reply.error is not None:
        raise reply.error
    return reply.body


def check_there(run: RunDir) -> None:
    """NotRunningError unless the run directory is there, RunDirError unless it and its parent are ours alone."""
    try:
        for path in (os.path.dirname(run.path), run.path):
            names.check_private_dir(path)
    except FileNotFoundError:
        raise NotRunningError(run.name, run.path) from None


def check_running(run: RunDir) -> None:
    """As ``check_there``; NotRunningError also unless a daemon has its lock or listens."""
    check_there(run)
    if not is_held(run) and not is_listening(run.lifeline):  # the lock of one that serves may have been removed
        raise NotRunningError(run.name, run.path)
