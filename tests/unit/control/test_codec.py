"""Whatever bytes arrive, nothing but a map or a MessageError comes out."""
import resource

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
    (b"", "middle"),
    (b"\xc1", "type"),
    (msgpack.packb([1]), "expected a map"),
    (msgpack.packb({1: 2}), "not msgpack"),
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
    (b"\x81\xa1\xff\x01", "not msgpack"),
    (b"\x00" * (codec.MESSAGE_BYTES + 1), "bytes"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_refused_says_why(data, word):
    with pytest.raises(MessageError, match=word):
        codec.unpack(data)


def test_nested_headers_that_claim_much_take_no_memory():
    claim = b"\xdc\x04\x00"
    data = b"\x81\xa1a" + claim * ((codec.MESSAGE_BYTES - 3) // len(claim))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(20):
        with pytest.raises(MessageError):
            codec.unpack(data)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before <= 8 * 1024


def test_a_map_that_is_too_long_is_not_sent():
    with pytest.raises(MessageError, match="65"):
        codec.pack({str(i): "x" * 4000 for i in range(20)})
