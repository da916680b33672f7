"""A worker that maps its segments and does nothing, or dies in a way that a table's name asks for.

    python -m tests.support.standin_worker KIND --channel FD --index I --generation G
"""
import mmap
import os
import signal
import socket
import sys

from ascpipe.control import fdsocket
from ascpipe.control.exec_worker import BROKEN_KERNELS
from ascpipe.errors import ConnectionClosedError


def main():
    kind, arguments = sys.argv[1], dict(zip(sys.argv[2::2], sys.argv[3::2]))
    if os.environ.get("ASCPIPE_X_STANDIN_BROKEN") == kind:
        raise ImportError("no module named 'something'")
    if kind == "key" and os.path.exists(os.path.join(os.environ["NUMBA_CACHE_DIR"], "half_a_file")):
        sys.exit(BROKEN_KERNELS)
    with socket.socket(fileno=int(arguments["--channel"])) as channel:
        try:
            fdsocket.send(channel, {"verb": "loaded"})
            body, fds = fdsocket.receive(channel, 1e9)
            sys.stderr.write("hash seed {}\n".format(body["hash_seed"]))
            sys.stderr.flush()
            names = {table["name"] for table in body["tables"]}
            sizes = [body["session_bytes"]] + [part["bytes"] for part in body["streams"] + body["tables"]]
            mapped = [mmap.mmap(fd, size) for fd, size in zip(fds, sizes)]  # `segment` would import numpy
            if kind + "-crash-loop" in names:
                os.kill(os.getpid(), signal.SIGKILL)
            if kind + "-segv" in names:
                os.kill(os.getpid(), signal.SIGSEGV)
            if kind + "-raise" in names:
                raise ValueError("slot 7 has two keys")
            if kind + "-report" in names:
                fdsocket.send(channel, {"verb": "failed", "code": "E122", "text": "entry 5 is torn"})
                sys.exit(1)
            if "restart-" + str(body["restart"]) in names:
                mapped[0][-1] = 7  # a mark that the test looks for
            fdsocket.send(channel, {"verb": "attached"})
            while fdsocket.receive(channel, 1e9)[0]["verb"] in ("add_stream", "add_table", "record"):
                pass
        except ConnectionClosedError:
            sys.exit(0)


if __name__ == "__main__":
    main()
