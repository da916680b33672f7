"""Connection from a rank to its launcher on another machine. When the launcher exits, the rank ends.

The launcher starts ranks on other machines by ssh. If the client of ssh exits, the server of ssh does not end the
processes that it started. So the launcher listens on a port, and each rank connects to it. The launcher does not accept
the connections while ranks run: the kernel completes them, and resets them when the launcher closes its socket or dies.
Keepalive messages of the kernel detect a machine that no longer answers.

A rank sends one byte after its first batch. The launcher reads the bytes when the ranks have ended.
"""
import contextlib
import os
import select
import signal
import socket
import threading
import time
from typing import List, Mapping, Optional

from ascpipe.errors import RanksError

PORT_VARIABLE = "ASCPIPE_LAUNCHER_PORT"  #: environment variable of ranks: port of the launcher
_ADDRESS_VARIABLE = "HOROVOD_GLOO_RENDEZVOUS_ADDR"  # Horovod's launcher sets this variable to the launcher's address
_CONNECT_S = 30.0
_IDLE_S = 10  # a machine that does not answer is detected after _IDLE_S + _PROBES * _INTERVAL_S
_INTERVAL_S = 5
_PROBES = 4
_LOOK_S = 60.0
_BATCH = b"b"
_END_S = 10.0  # seconds from SIGTERM to SIGKILL; Horovod's launcher waits 5 s for ranks of its machine

_connections: List[socket.socket] = []  # connection of this process to its launcher, if there is one


class Lifeline:
    """Listening socket of the launcher, as a context manager.

    Args:
        ranks: number of ranks that will connect.

    Attributes:
        port: TCP port, on all addresses of this machine.
    """

    def __init__(self, ranks: int) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("", 0))
        self._socket.listen(2 * ranks)
        self.port: int = self._socket.getsockname()[1]

    def __enter__(self) -> "Lifeline":
        return self

    def __exit__(self, *exc: object) -> None:
        self._socket.close()

    def has_trained(self) -> bool:
        """Return whether a rank has sent the byte after its first batch. Call this method when the ranks have ended.
        """
        self._socket.setblocking(False)
        found = False
        with contextlib.suppress(BlockingIOError):  # there are no more connections
            while True:
                connection, _ = self._socket.accept()
                with connection, contextlib.suppress(OSError):  # nothing was sent, or the kernel has reset it
                    found = connection.recv(1, socket.MSG_DONTWAIT) == _BATCH or found
        return found


def tell_first_batch() -> None:
    """Tell the launcher that this rank has finished its first batch. Do nothing if the launcher runs all ranks on its
    own machine.
    """
    for connection in _connections:
        with contextlib.suppress(OSError):  # the launcher has exited, so this rank ends
            connection.send(_BATCH, socket.MSG_DONTWAIT)
    _connections.clear()


def end_with_launcher(environment: Mapping[str, str]) -> Optional[threading.Thread]:
    """Start a thread that ends this process when the launcher exits. The thread sends SIGTERM to this process, and
    SIGKILL 10 s later.

    Returns:
        The thread, or None if the launcher runs all ranks on its own machine.

    Raises:
        RanksError: the launcher cannot be reached.
    """
    port = environment.get(PORT_VARIABLE)
    address = environment.get(_ADDRESS_VARIABLE)
    if port is None or address is None:
        return None
    try:
        connection = socket.create_connection((address, int(port)), _CONNECT_S)
        for option, value in ((socket.TCP_KEEPIDLE, _IDLE_S), (socket.TCP_KEEPINTVL, _INTERVAL_S),
                              (socket.TCP_KEEPCNT, _PROBES)):
            connection.setsockopt(socket.IPPROTO_TCP, option, value)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except (OSError, ValueError) as error:
        raise RanksError("this rank cannot connect to its launcher at {}:{}: {}. The launcher has exited, or a "
                         "firewall rejects the connection".format(address, port, error)) from error
    _connections.append(connection)
    thread = threading.Thread(target=_watch, args=(connection,), name="asc-launcher", daemon=True)
    thread.start()
    return thread


def _watch(connection: socket.socket) -> None:
    with connection:
        while not select.select([connection], [], [], _LOOK_S)[0]:
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_END_S)
    os.kill(os.getpid(), signal.SIGKILL)
