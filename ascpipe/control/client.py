"""Client of the control plane: sends one request and waits for its reply, with a timeout."""
import os
import secrets
import time
from typing import Any, Dict, List

import zmq

from ascpipe import names
from ascpipe.control import codec, messages
from ascpipe.control.lock import is_held
from ascpipe.errors import NoAnswerError, NotRunningError
from ascpipe.names import RunDir

TIMEOUT_S = 10.0
_LOOK_S = 0.2  # between looks whether the daemon still lives


def ask(run: RunDir, body: messages.Body, timeout_s: float = TIMEOUT_S) -> Dict[str, Any]:
    """Ask the daemon of ``run`` and return the body of its answer.

    Connects anew each time, so nothing of it stays in a program that forks later.

    Raises:
        NotRunningError: there is none, or it ended before it answered.
        RunDirError: its directory is not ours alone.
        NoAnswerError: it lives and did not answer within ``timeout_s``.
        MessageError: its answer is not one.
        AscpipeError: what it answered, by the class of its code.
    """
    _check_running(run)
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    try:
        for option, value in ((zmq.LINGER, 0), (zmq.RCVHWM, 10), (zmq.SNDHWM, 10),
                              (zmq.MAXMSGSIZE, codec.MESSAGE_BYTES), (zmq.IPC_FILTER_UID, os.geteuid())):
            socket.setsockopt(option, value)
        socket.connect(run.control_endpoint)
        request_id = secrets.randbits(62)
        socket.send(messages.request_bytes(request_id, body))
        return _answer(socket, run, request_id, messages.verb_of(body), timeout_s)
    finally:
        socket.close(0)
        context.term()


def running_daemons() -> List[str]:
    """Names of this user's daemons that live; raises as ``names.known_names``."""
    return [name for name in names.known_names() if is_held(RunDir(name))]


def _answer(socket: "zmq.Socket", run: RunDir, request_id: int, verb: str, timeout_s: float) -> Dict[str, Any]:
    deadline = time.monotonic() + timeout_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise NoAnswerError(run.name, verb, timeout_s)
        if not socket.poll(1 + int(1000 * min(left_s, _LOOK_S))):
            _check_running(run)
            continue
        reply = messages.parse_reply(socket.recv())
        if reply.id not in (request_id, 0):  # 0: a daemon that could not even read the id
            continue
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


def _check_running(run: RunDir) -> None:
    check_there(run)
    if not is_held(run):
        raise NotRunningError(run.name, run.path)
