"""Ranks on two distant machines, simulated by network namespaces. TUN devices and a relay with a delay connect the
namespaces.

    python -m bench.far_ranks --delay-ms 20 [--mbit-s 200] [--ranks 4] [--steps 30] [--collectives]

The program trains the model of ``ranks`` and prints the durations of a step and of an exchange
(docs/internals/scaling.md). It needs root, ``/dev/net/tun`` and ``ip``. The program does not use ``tc netem``, because
many kernels do not have it.
"""
import contextlib
import fcntl
import heapq
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import Dict, Iterator, List, Tuple

import click

ADDRESSES = {"near": "10.77.78.1", "far": "10.77.78.2"}
LIMIT_S = 900
_PREFIX = "asc-bench-"  # prefix of the namespaces
_INTERFACE = "link0"  # Horovod needs the same name on all machines
# linux/if_tun.h
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000

_PACKET_BYTES = 65536
_MTU = 9000
_AT_ONCE = 64

#: Replacement of ssh for ``ascpipe run``. Its arguments are the options, the host and the command.
_SSH = """#!/bin/bash
host=
while [ $# -gt 0 ]; do
  case $1 in
    -[opi]) shift 2 ;;
    -*) shift ;;
    *) [ -z "$host" ] || break; host=$1; shift ;;
  esac
done
exec ip netns exec {}$host bash -c "$*"
"""


@click.command()
@click.option("--delay-ms", default=0.0, show_default=True, help="Delay of a packet, one way.")
@click.option("--mbit-s", default=0.0, help="Bandwidth of the wire in each direction; 0: no limit.")
@click.option("--ranks", default=2, show_default=True, type=click.IntRange(2), help="Ranks, half on each machine.")
@click.option("--steps", default=30, show_default=True, type=click.IntRange(1), help="Number of timed steps.")
@click.option("--collectives", is_flag=True, help="Measure Horovod's collectives instead.")
def main(delay_ms: float, mbit_s: float, ranks: int, steps: int, collectives: bool) -> None:
    """Run a program on two machines. The first rank prints the results."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    program = os.path.join("bench", "far_collectives.py" if collectives else "far_ranks_program.py")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        ssh = os.path.join(folder, "ssh")
        with open(ssh, "w") as file:
            file.write(_SSH.format(_PREFIX))
        os.chmod(ssh, 0o700)
        ends = [stack.enter_context(_machine(name)) for name in ADDRESSES]
        stack.enter_context(_relay(ends[0], ends[1], delay_ms / 1e3, 8e-6 / mbit_s if mbit_s else 0.0))
        command = ["ip", "netns", "exec", _PREFIX + "near", sys.executable, "-W", "ignore", "-m", "ascpipe", "run",
                   "--ranks", str(ranks), "--hosts", "near:{},far:{}".format(ranks - ranks // 2, ranks // 2),
                   os.path.join(root, program), str(steps)]
        subprocess.run(command, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, env=dict(
            os.environ, PYTHONPATH=root, PATH="{}:{}".format(folder, os.environ["PATH"])))


@contextlib.contextmanager
def _machine(name: str) -> Iterator[int]:
    """Create a namespace with a TUN device. Yield the descriptor of the other end of the device."""
    space = _PREFIX + name
    device = "asc" + name
    hosts = "/etc/netns/" + space
    lines = ["127.0.0.1 localhost"] + ["{} {} {}".format(address, other, socket.gethostname() if other == name else "")
                                       for other, address in ADDRESSES.items()]
    with contextlib.ExitStack() as undo:
        end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        undo.callback(os.close, end)
        fcntl.ioctl(end, _TUNSETIFF, struct.pack("16sH", device.encode(), _IFF_TUN | _IFF_NO_PI))
        _ip("netns", "add", space)
        undo.callback(_ip, "netns", "del", space)
        os.makedirs(hosts, exist_ok=True)
        undo.callback(shutil.rmtree, hosts)
        with open(os.path.join(hosts, "hosts"), "w") as file:
            file.write("\n".join(lines) + "\n")
        _ip("link", "set", device, "netns", space)
        _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", space, "link", "set", device, "name", _INTERFACE)
        _ip("-n", space, "addr", "add", ADDRESSES[name] + "/24", "dev", _INTERFACE)
        _ip("-n", space, "link", "set", _INTERFACE, "up", "mtu", str(_MTU), "txqueuelen", "10000")
        yield end


@contextlib.contextmanager
def _relay(one: int, other: int, delay_s: float, byte_s: float) -> Iterator[None]:
    """Carry packets between two descriptors in order. Each packet is delayed by ``delay_s``, and each byte occupies the
    wire for ``byte_s`` seconds.
    """
    stopped, stop = os.pipe()
    thread = threading.Thread(target=_carry, args=({one: other, other: one}, delay_s, byte_s, stopped), daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(stop)
        thread.join()
        os.close(stopped)


def _carry(to: Dict[int, int], delay_s: float, byte_s: float, stopped: int) -> None:
    waiting: List[Tuple[float, int, int, bytes]] = []  # time, number, target, packet
    free_s = dict.fromkeys(to, 0.0)  # time at which the wire from an end becomes free
    number = 0
    while True:
        rest_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready = select.select([*to, stopped], [], [], rest_s)[0]
        if stopped in ready:
            return
        now_s = time.monotonic()
        for end in ready:
            with contextlib.suppress(BlockingIOError):
                for _ in range(_AT_ONCE):
                    number += 1
                    packet = os.read(end, _PACKET_BYTES)
                    free_s[end] = max(now_s, free_s[end]) + byte_s * len(packet)
                    heapq.heappush(waiting, (free_s[end] + delay_s, number, to[end], packet))
        while waiting and waiting[0][0] <= time.monotonic():
            _, _, end, packet = heapq.heappop(waiting)
            with contextlib.suppress(OSError):  # a packet is lost if the queue is full or the device is being removed
                os.write(end, packet)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


if __name__ == "__main__":
    main()
