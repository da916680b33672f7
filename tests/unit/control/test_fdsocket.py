"""Messages and descriptors between two ends of a socket pair."""
import array
import os
import socket
import threading

import pytest

from ascpipe.control import fdsocket
from ascpipe.errors import ConnectionClosedError, MessageError, MessageTimeoutError


@pytest.fixture
def ends():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


def make_files(n):
    fds = []
    for number in range(n):
        read, write = os.pipe()
        os.write(write, b"%d" % number)
        os.close(write)
        fds.append(read)
    return fds


def test_descriptors_arrive_in_order_and_are_not_inherited(ends):
    fds = make_files(40)
    fdsocket.send(ends[0], {"verb": "attach", "n": 40}, fds)
    body, received = fdsocket.receive(ends[1], 1.0)
    try:
        assert body == {"verb": "attach", "n": 40}
        assert [os.read(fd, 10) for fd in received] == [b"%d" % number for number in range(40)]
        assert not any(os.get_inheritable(fd) for fd in received)
    finally:
        for fd in fds + received:
            os.close(fd)


def test_messages_do_not_run_into_one_another(ends):
    fds = make_files(2)
    for number, with_fds in enumerate([(), fds[:1], (), fds[1:]]):
        fdsocket.send(ends[0], {"n": number}, with_fds)
    received = [fdsocket.receive(ends[1], 1.0) for _ in range(4)]
    assert [(body["n"], len(files)) for body, files in received] == [(0, 0), (1, 1), (2, 0), (3, 1)]
    for fd in fds + [fd for _, files in received for fd in files]:
        os.close(fd)


def test_a_message_larger_than_the_socket_buffer_arrives_whole(ends):
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    body = {str(i): "x" * 4000 for i in range(15)}
    sender = threading.Thread(target=fdsocket.send, args=(ends[0], body))
    sender.start()
    assert fdsocket.receive(ends[1], 5.0) == (body, [])
    sender.join()


def test_the_end_of_file_is_a_typed_error(ends):
    assert not fdsocket.is_closed(ends[1])
    ends[0].close()
    assert fdsocket.is_closed(ends[1])
    with pytest.raises(ConnectionClosedError):
        fdsocket.receive(ends[1], 1.0)
    with pytest.raises(ConnectionClosedError):
        fdsocket.send(ends[1], {})


def test_looking_for_the_end_of_file_takes_nothing_away(ends):
    fdsocket.send(ends[0], {"n": 1})
    assert not fdsocket.is_closed(ends[1])
    assert fdsocket.receive(ends[1], 1.0)[0] == {"n": 1}


def test_an_end_of_file_in_the_middle_closes_the_descriptors_that_came(ends):
    fds = make_files(1)
    ends[0].sendmsg([b"\x10\x00"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
    ends[0].close()
    open_before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(ConnectionClosedError):
        fdsocket.receive(ends[1], 1.0)
    assert set(os.listdir("/proc/self/fd")) == open_before
    os.close(fds[0])


def test_silence_ends_with_the_time_and_loses_nothing(ends):
    with pytest.raises(MessageTimeoutError):
        fdsocket.receive(ends[1], 0.01)
    fdsocket.send(ends[0], {"n": 1})
    assert fdsocket.receive(ends[1], 0.0)[0] == {"n": 1}


def test_an_announced_length_is_checked_before_reading(ends):
    ends[0].sendall(b"\xff\xff\xff\x7f")
    with pytest.raises(MessageError, match="announces"):
        fdsocket.receive(ends[1], 1.0)


def test_too_many_descriptors_are_refused(ends):
    with pytest.raises(MessageError, match="251 descriptors"):
        fdsocket.send(ends[0], {}, [0] * 251)


def test_a_receiver_may_wait_for_years(ends):
    timer = threading.Timer(0.02, fdsocket.send, (ends[0], {"n": 1}))
    timer.start()
    assert fdsocket.receive(ends[1], 1e9)[0] == {"n": 1}
    timer.join()


def test_descriptors_that_come_with_a_message_that_needs_none_are_closed(ends):
    read, write = os.pipe()
    os.set_blocking(read, False)
    fdsocket.send(ends[0], {"verb": "hello"}, [write])
    os.close(write)
    assert fdsocket.receive_body(ends[1], 1.0) == {"verb": "hello"}
    try:
        assert os.read(read, 1) == b""  # nobody has the other end
    finally:
        os.close(read)
