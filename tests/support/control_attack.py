"""Sends malformed messages to a daemon's control socket, as fast as they are taken; prints how many were sent.

    python -m tests.support.control_attack SOCKET COUNT stays|goes SEED

A peer that ``stays`` has several connections, waits for the answers and comes again; one that ``goes`` closes each
connection at once, one in eight before it has sent anything.
"""
import random
import socket
import sys

import msgpack

AT_ONCE = 20  #: connections of a peer that stays


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


def connected(path):
    """A connection, or None: the daemon has closed it already."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
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


def go(path, count, made, draw):
    """One connection after the other, each closed at once."""
    for number in range(count):
        sock = connected(path)
        if sock is not None:
            if number % 8:
                send(sock, draw.choice(made))
            sock.close()


def stay(path, count, made, draw):
    """Keep connections, and read what comes."""
    waiting = []
    for _ in range(count):
        sock = connected(path)
        if sock is not None:
            send(sock, draw.choice(made))
            waiting.append(sock)
        if len(waiting) >= AT_ONCE:
            first = waiting.pop(0)
            first.settimeout(20.0)
            try:
                first.recv(1 << 16)
            except ConnectionError:
                pass
            first.close()


def main():
    path, count, kind, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    (go if kind == "goes" else stay)(path, count, malformed(seed), random.Random(seed))
    sys.stdout.write("{}\n".format(count))


if __name__ == "__main__":
    main()
