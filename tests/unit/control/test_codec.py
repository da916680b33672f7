"""Whatever bytes arrive, nothing but a map or a MessageError comes out."""
import gc
import os

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.control import codec
from ascpipe.errors import MessageError

LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.text(max_size=20),
                   st.binary(max_size=20), st.floats(allow_nan=False, allow_infinity=False))
TREES = st.recursive(LEAVES, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)), max_leaves=20)


def depth(value):
    if isinstance(value, dict):
        return 1 + max([depth(item) for item in value.values()], default=0)
    return 1 + max([depth(item) for item in value], default=0) if isinstance(value, list) else 0


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=8), TREES, max_size=6).filter(lambda body: depth(body) <= codec.MAX_DEPTH))
def test_a_map_comes_back_as_it_was(body):
    assert codec.unpack(codec.pack(body)) == body


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_are_a_map_or_a_message_error(data):
    try:
        assert isinstance(codec.unpack(data), dict)
    except MessageError:
        pass


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=4), TREES, min_size=1, max_size=3), st.data())
def test_a_cut_or_changed_message_is_a_map_or_a_message_error(body, data):
    good = msgpack.packb(body)
    cut = good[:data.draw(st.integers(0, len(good) - 1))]
    with pytest.raises(MessageError):
        codec.unpack(cut)
    place, byte = data.draw(st.integers(0, len(good) - 1)), data.draw(st.integers(0, 255))
    try:
        codec.unpack(good[:place] + bytes([byte]) + good[place + 1:])
    except MessageError:
        pass


@pytest.mark.parametrize("data, word", [
    (b"", "truncated"),
    (b"\xc1", "type"),
    (msgpack.packb([1]), "expected a map"),
    (msgpack.packb({1: 2}), "a key is a int, expected text"),
    (b"\x82\xa1a\x01\xa1a\x02", "twice"),
    (msgpack.packb({"a": 1}) + b"\x00", "follow"),
    (msgpack.packb({"a": msgpack.ExtType(5, b"x")}), "type"),
    (msgpack.packb({"a": msgpack.Timestamp(1)}), "type"),
    (msgpack.packb({"a": "x" * (codec.MAX_STRING_BYTES + 1)}), "text"),
    (msgpack.packb({"a": b"x" * (codec.MAX_BINARY_BYTES + 1)}), "binary"),
    (msgpack.packb({"a": [0] * (codec.MAX_ARRAY + 1)}), "list"),
    (msgpack.packb({"a": {str(i): 0 for i in range(codec.MAX_MAP + 1)}}), "map"),
    (b"\x81\xa1a" + b"\xdd\xff\xff\xff\xff", "list"),
    (b"\x81\xa1a" + b"\x91" * 20 + b"\x00", "deeper"),
    (msgpack.packb({"a": float("nan")}), "finite"),
    (msgpack.packb({"a": [1.0, float("inf")]}), "finite"),
    (b"\x81\xa1\xff\x01", "UTF-8"),
    (b"\x81\xa1a\xa3\xed\xa0\x80", "UTF-8"),  # half of a surrogate pair
    (msgpack.packb({str(i): [0] * codec.MAX_ARRAY for i in range(16)}), "values or more; at most 16384"),
    (b"\x00" * (codec.MESSAGE_BYTES + 1), "bytes"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_refused_says_why(data, word):
    with pytest.raises(MessageError, match=word):
        codec.unpack(data)


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def refused(last, lists):
    """A message with 900 bytes of texts in each of these lists, before the place where it is refused."""
    built = {str(number): ["x" * 8] * 100 for number in range(lists)}
    packed = [msgpack.packb(part) for item in built.items() for part in item]
    return b"".join([b"\xde\x00", bytes([lists + 1]), *packed, last])


LAST = {
    "a text that is not UTF-8": b"\xa1a\xa1\xff", "a key that is not UTF-8": b"\xa1\xff\x01",
    "half of a surrogate pair": b"\xa1a\xa3\xed\xa0\x80", "a key twice": b"\xa17\x01",
    "a number as a key": b"\x01\x01",
    "a list as a key": b"\x90\x01", "a map as a key": b"\x80\x01", "bytes as a key": b"\xc4\x01a\x01",
    "NaN": b"\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", "infinity": b"\xa1a\xca\x7f\x80\x00\x00",
    "an extension": b"\xa1a\xd4\x05x", "a type that is not there": b"\xa1a\xc1", "the end in the middle": b"\xa1a\xa5x",
    "more after the end": b"\xa1a\x01\x00", "a text that is too long": b"\xa1a\xda\xff\xff",
    "depth": b"\xa1a" + b"\x91" * 20,
    "nested headers that claim much": b"\xa1a" + b"\xdc\x04\x00" * 5000}


@pytest.mark.parametrize("kind", sorted(LAST))
def test_messages_that_are_refused_leave_no_memory(kind):
    data = refused(LAST[kind], 10)
    for turn in range(100):
        if turn == 30:
            gc.collect()
            before = resident_kib()
        with pytest.raises(MessageError):
            codec.unpack(data)
    gc.collect()
    assert resident_kib() - before < 1024


@pytest.mark.long
@pytest.mark.timeout_s(300)
def test_thousands_of_messages_that_are_refused_for_any_reason_leave_no_memory():
    messages = [refused(last, 60) for last in LAST.values()]
    for turn in range(150):
        if turn == 20:
            gc.collect()
            before = resident_kib()
        for data in messages:
            with pytest.raises(MessageError):
                codec.unpack(data)
    gc.collect()
    assert resident_kib() - before < 1024


PIECES = st.one_of(
    st.sampled_from([*LAST.values(), b"\xc0", b"\xc3", b"\xcf" + b"\xff" * 8, b"\xd3\x80" + b"\x00" * 7, b"\xd9\x01a",
                     b"\xc5\x00\x01c", b"\xdb\x00\x00\x00\x01b", b"\xdc\x00\x01", b"\xdf\x00\x00\x00\x01",
                     b"\x81\xa1"]),
    st.binary(min_size=1, max_size=4), TREES.map(msgpack.packb))


@given(st.lists(PIECES, max_size=6).map(b"".join), st.booleans())
def test_what_is_read_is_what_msgpack_reads_and_it_raises_nothing(data, inside):
    data = b"\x81\xa1a" + data if inside else data
    try:
        body = codec.unpack(data)
    except MessageError:
        return
    assert msgpack.unpackb(data, raw=False, strict_map_key=True) == body


def test_a_map_that_is_too_long_is_not_sent():
    with pytest.raises(MessageError, match="65"):
        codec.pack({str(i): "x" * 4000 for i in range(20)})


def test_keys_and_values_of_a_map_both_count_among_the_values():
    maps = {"a": [{str(i): 0 for i in range(codec.MAX_MAP)} for _ in range(codec.MAX_VALUES // (2 * codec.MAX_MAP))]}
    with pytest.raises(MessageError, match="values or more; at most 16384"):
        codec.unpack(msgpack.packb(maps))
