"""Sends malformed messages to a daemon's control socket, as fast as they are taken; prints how many were sent.

    python -m tests.support.control_attack SOCKET COUNT stays|goes SEED
    python -m tests.support.control_attack SOCKET KIND    # SOCKET may be that of lifelines, KIND then HALF

A peer that ``stays`` has several connections, waits for the answers and comes again; one that ``goes`` closes each
connection at once, one in eight before it has sent anything.  With a KIND of ``DEAREST`` it sends that kind over
``AT_ONCE`` connections at once until it is killed; one half waits for the answers, the other half leaves.
"""
import itertools
import random
import socket
import sys
import threading

import msgpack

from ascpipe.control import codec, messages

AT_ONCE = 20  #: connections of a peer

_STARTS = messages.request_bytes(1, messages.Start(
    tuple(messages.Stream(number, 2, tuple(range(100)), 2) for number in range(32)),
    tuple(messages.Table(number, "t", 4, 100) for number in range(100)), b"t" * messages.TOKEN_BYTES))


def _body(value):
    """A message that has ``value`` as often as it can."""
    room = codec.MESSAGE_BYTES - 100
    times = min(16 * 1000, room // len(msgpack.packb(value)))
    lists = [[value] * min(1000, times - begin) for begin in range(0, times, 1000)]
    return msgpack.packb({"v": 1, "id": 1, "verb": "status", "body": {str(n): made for n, made in enumerate(lists)}})


#: messages that take long to read, by kind; None: nothing is sent
DEAREST = {
    "empty maps": _body({}), "maps of one key": _body({"a": 0}), "empty texts": _body(""), "short texts": _body("aa"),
    "long texts": _body("\u20ac" * 1300), "bytes": _body(b"x" * 16000), "small integers": _body(1),
    "large integers": _body(2**63), "floats": _body(0.5), "deep lists": _body([[[[[]]]]]), "deep maps": _body(
        {"a": {"a": {"a": {}}}}), "starts": _STARTS, "at the limit": b"\x81\xa1a" + b"\xc4\x00" * 32700,
    "too long": b"x" * 150_000, "nothing": None}

HALF = "half"  #: of what is due on a lifeline
HALF_A_TOKEN = b"\x28\x00\x00\x00\x82\xa4verb"


def malformed(seed):
    """Messages that no daemon takes: one in twenty of 40 KB, the rest of some hundred bytes."""
    draw = random.Random(seed)
    made = [b"\xc1", b"", b"GET / HTTP/1.0\r\n\r\n", b"x" * 70_000,
            b"\x81\xa1a" + b"\xdc\x04\x00" * 20_000, b"\x81\xa1a" + b"\x91" * 60]
    for _ in range(200):
        body = {str(number): ["x" * 8] * 100 for number in range(45 if draw.random() < 0.05 else 1)}
        packed = b"".join(msgpack.packb(part) for item in body.items() for part in item)
        last = draw.choice([b"\xa1a\xa1\xff", b"\xa10\x01", b"\x01\x01", b"\x90\x01", b"\xa1a\xcb\x7f\xf8" + bytes(6),
                            b"\xa1a\xc1", b"\xa1a\xa5x", b"\xa1a\x01\x00"])
        made.append(b"\xde\x00" + bytes([len(body) + 1]) + packed + last)
        made.append(bytes(draw.getrandbits(8) for _ in range(draw.randrange(1, 300))))
        made.append(msgpack.packb({
            "v": 1, "id": draw.choice([1, -1, "1"]), "verb": draw.choice(["fly", "bye", "start"]),
            "body": draw.choice([{}, [], {"token": b"t" * 15}, {"streams": [], "tables": []}])}))
    return made


def connected(path, kind=socket.SOCK_SEQPACKET):
    """A connection, or None: the daemon has closed it already."""
    sock = socket.socket(socket.AF_UNIX, kind)
    try:
        sock.connect(path)
        return sock
    except OSError:
        sock.close()
        return None


def send(sock, data):
    try:
        sock.send(data, socket.MSG_NOSIGNAL)
    except OSError:  # it was closed to make room
        pass


def answer(sock):
    """Wait until something is there, and return it: nothing if the connection was closed."""
    sock.settimeout(20.0)
    try:
        return sock.recv(1 << 16)
    except OSError:
        return b""


def go(path, count, draw):
    """One connection after the other, each closed at once."""
    for number in range(count):
        sock = connected(path)
        if sock is not None:
            if number % 8:
                send(sock, next(draw))
            sock.close()


def stay(path, count, draw):
    """Keep connections, and read what comes."""
    waiting = []
    for _ in range(count):
        sock = connected(path)
        if sock is not None:
            send(sock, next(draw))
            waiting.append(sock)
        if len(waiting) >= AT_ONCE:
            first = waiting.pop(0)
            answer(first)
            first.close()


def crowd(path, kind):
    """``AT_ONCE`` peers at once, until this process is killed."""
    data, socket_kind = (HALF_A_TOKEN, socket.SOCK_STREAM) if kind == HALF else (DEAREST[kind], socket.SOCK_SEQPACKET)

    def attack(is_patient):
        while True:
            sock = connected(path, socket_kind)
            if sock is not None:
                with sock:
                    if data is not None:
                        send(sock, data)
                    while is_patient and answer(sock):
                        pass

    for _, is_patient in zip(range(AT_ONCE), itertools.cycle([True, False])):
        threading.Thread(target=attack, args=(is_patient,)).start()


def main():
    if len(sys.argv) == 3:
        crowd(*sys.argv[1:])
        return
    path, count, kind, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    made = malformed(seed)
    random.Random(seed).shuffle(made)
    (go if kind == "goes" else stay)(path, count, itertools.cycle(made))
    sys.stdout.write("{}\n".format(count))


if __name__ == "__main__":
    main()
