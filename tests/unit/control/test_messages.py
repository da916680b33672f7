"""Requests are exactly what the schema says; anything else names the field."""
import copy

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascpipe.control import codec, messages
from ascpipe.errors import BusyError, MessageError

OFF = {"home_rows": 0, "row_floats": 0, "access_threshold": -1, "faae_coefficient": 1, "eviction_threshold": -1,
       "disk_rows": 0, "directories": []}
GOOD = {
    "status": {}, "stop": {}, "bye": {"token": b"x" * 16},
    "register": {"pid": 5, "layout": 2**62, "version": "1", "token": b"x" * 16},
    "start": {
        "streams": [{"stream": 0, "channel": 0, "tables": [1, 0], "rank_size": 1},
                    {"stream": 7, "channel": 1, "tables": [1], "rank_size": 1}],
        "tables": [{"table": 0, "name": "user", "dim": 8, "device_rows": 100, **OFF},
                   {"table": 1, "name": "item", "dim": 16, "device_rows": 7, **OFF}],
        "token": b"x" * 16,
    },
    "add_stream": {"stream": {"stream": 9, "channel": 1, "tables": [1, 0], "rank_size": 1}, "token": b"x" * 16},
    "add_table": {"table": {"table": 2, "name": "late", "dim": 4, "device_rows": 10, "home_rows": 0, "row_floats": 4,
                            "access_threshold": -1, "faae_coefficient": 1, "eviction_threshold": -1,
                            "disk_rows": 0, "directories": []}, "token": b"x" * 16},
    "read_table": {"table": "user"}, "trace": {"spans": 20000},
}


def request(verb, body, changes=None):
    return codec.pack({"v": 1, "id": 3, "verb": verb, "body": body, **(changes or {})})


@pytest.mark.parametrize("verb", sorted(GOOD))
def test_a_good_request_comes_through_both_ways(verb):
    parsed = messages.parse_request(request(verb, GOOD[verb]))
    assert (parsed.id, parsed.verb) == (3, verb)
    assert messages.parse_request(messages.request_bytes(3, parsed.body)) == parsed


def test_a_start_is_read_into_its_parts():
    body = messages.parse_request(request("start", GOOD["start"])).body
    assert body.streams[1] == messages.Stream(7, 1, (1,))
    assert body.tables[0] == messages.Table(0, "user", 8, 100)


STREAMS = messages.Start(
    tuple(messages.Stream(number, 0 if number == 0 else 1, (0,)) for number in range(messages.MAX_STREAMS - 1)),
    (messages.Table(0, "user", 8, 100),), b"x" * 16)


def test_a_session_gets_one_more_evaluation_stream_over_tables_that_have_one():
    stream = messages.Stream(70, 1, (0,))
    more = messages.extended(STREAMS, stream)
    assert more.streams == (*STREAMS.streams, stream)
    assert more.tables == STREAMS.tables


@pytest.mark.parametrize("stream, words", [
    (messages.Stream(70, 0, (0,)), "stream 70 would be the second stream that trains table 0"),
    (messages.Stream(3, 1, (0,)), "stream 3 is there already"),
    (messages.Stream(70, 1, (0, 1)), "stream 70 has table 1, but there are 1"),
])
def test_a_stream_that_a_session_cannot_get_is_named(stream, words):
    with pytest.raises(MessageError, match=words):
        messages.extended(STREAMS, stream)


def test_a_session_has_a_limit_of_streams():
    full = messages.extended(STREAMS, messages.Stream(70, 1, (0,)))
    with pytest.raises(MessageError, match="stream 71 exceeds the limit: a session has at most 32"):
        messages.extended(full, messages.Stream(71, 1, (0,)))


def local(number, *tables):
    return {"stream": number, "channel": 2, "tables": list(tables), "rank_size": 2}


def test_a_table_is_in_the_local_rings_of_several_streams():
    start = {**GOOD["start"], "streams": [*GOOD["start"]["streams"], local(8, 0, 1), local(9, 1)]}
    body = messages.parse_request(request("start", start)).body
    assert body.streams[2:] == (messages.Stream(8, 2, (0, 1), 2), messages.Stream(9, 2, (1,), 2))
    later = messages.parse_request(request("add_stream", {"stream": local(10, 1, 0), "token": b"x" * 16})).body
    assert messages.extended(body, later.stream).streams[-1].rank_size == 2


def test_a_local_ring_has_a_table_once():
    with pytest.raises(MessageError, match="stream 8 has the same table twice"):
        messages.parse_request(request("start", {**GOOD["start"], "streams": [local(8, 1, 1)]}))


def changed(path, value):
    body = copy.deepcopy(GOOD)
    place = body
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return path[0], body[path[0]]


@pytest.mark.parametrize("path, value, words", [
    (("register", "pid"), True, "pid is a bool"),
    (("register", "pid"), 0, "allowed are 1"),
    (("register", "pid"), 1.0, "float"),
    (("register", "layout"), 2**63, "layout"),
    (("register", "token"), b"short", "16"),
    (("register", "token"), "x" * 16, "str"),
    (("register", "version"), "a\nb", "control characters"),
    (("status", "extra"), 1, "fields"),
    (("start", "streams"), [], "0 items"),
    (("start", "streams", 0, "channel"), 3, "0 to 2"),
    (("start", "streams", 0, "channel"), 2, "stream 0 of channel 2 has rank_size 1; expected 2 or more in channel 2"),
    (("start", "streams", 0, "rank_size"), 2, "0 of channel 0 has rank_size 2; expected 2 or more in channel 2, and 1"),
    (("start", "streams", 0, "rank_size"), 4096, "rank_size is 4096, allowed are 1 to 4095"),
    (("start", "streams", 0, "rank_size"), 0, "rank_size is 0, allowed are 1 to 4095"),
    (("start", "streams", 0, "rank_size"), None, "rank_size is a NoneType"),
    (("add_stream", "stream", "rank_size"), 2, "stream 9 of channel 1 has rank_size 2"),
    (("add_stream", "stream", "channel"), 2, "stream 9 of channel 2 has rank_size 1"),
    (("start", "streams", 0, "tables"), [0, 0], "two streams of channel 0"),
    (("start", "streams", 0, "tables"), [2], "there are 2"),
    (("start", "streams", 1, "stream"), 0, "twice"),
    (("start", "tables", 0, "table"), 1, "numbered"),
    (("start", "tables", 0, "name"), "\x1b[31m", "control characters"),
    (("start", "tables", 0, "dim"), 0, "dim"),
    (("start", "tables", 0, "device_rows"), 2**31, "device_rows"),
    (("start", "tables", 0, "device_rows"), 0, "rows on the device"),
    (("start", "tables", 0, "home_rows"), 5, "home rows"),
    (("start", "tables", 0, "access_threshold"), -2, "access_threshold"),
    (("add_stream", "stream"), None, "stream is a NoneType"),
    (("add_stream", "stream", "stream"), 2**31, "allowed are 0 to"),
    (("add_stream", "stream", "tables"), [1, 1], "table twice"),
    (("add_stream", "stream", "tables"), [], "0 items"),
    (("bye", "token"), b"x" * 15, "token has 15 bytes, expected 16"),
    (("start", "token"), "x" * 16, "token is a str"),
    (("add_stream", "token"), b"", "token has 0 bytes"),
    (("add_table", "token"), None, "token is a NoneType"),
    (("add_table", "table"), None, "table is a NoneType"),
    (("add_table", "table", "dim"), 0, "dim"),
    (("read_table", "table"), "", "table has 0 characters"),
    (("read_table", "table"), "a\nb", "control characters"),
    (("trace", "spans"), -1, "spans is -1"),
    (("trace", "spans"), 1_000_001, "0 to 1000000"),
    (("start", "tables", 1), None, r"tables\[1\] is a NoneType"),
])
def test_a_bad_field_is_named(path, value, words):
    with pytest.raises(MessageError, match=words):
        messages.parse_request(request(*changed(path, value)))


@pytest.mark.parametrize("changes", [{"v": 2}, {"id": -1}, {"verb": "fly"}, {"body": []}, {"more": 0}, {"verb": ""}])
def test_a_bad_envelope_is_refused(changes):
    with pytest.raises(MessageError):
        messages.parse_request(request("status", {}, changes))


def test_a_bad_request_is_found_out_before_it_is_sent():
    with pytest.raises(MessageError, match="token"):
        messages.request_bytes(1, messages.Register(5, 1, "1", b""))


ATOMS = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**63), st.text(max_size=3), st.binary(max_size=3))
JUNK = st.recursive(ATOMS, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(
                        st.sampled_from(["v", "id", "verb", "body", "streams", "tables", "pid"]), inner, max_size=4)))


@given(st.dictionaries(st.sampled_from(["v", "id", "verb", "body"]), JUNK), st.sampled_from(sorted(GOOD)), JUNK)
def test_whatever_a_map_holds_it_is_a_request_or_a_message_error(envelope, verb, body):
    for message in (envelope, {"v": 1, "id": 1, "verb": verb, "body": body}):
        try:
            messages.parse_request(msgpack.packb(message))
        except MessageError:
            pass


def test_answers_come_back_with_their_class():
    assert messages.parse_reply(messages.reply_bytes(4, {"run": (1, 2)})).body == {"run": [1, 2]}
    reply = messages.parse_reply(messages.error_bytes(4, BusyError("a", 12, "noon")))
    assert isinstance(reply.error, BusyError)
    assert "pid 12" in str(reply.error)


@pytest.mark.parametrize("body", [{}, {"v": 1, "id": 1, "ok": 1, "body": {}}, {"v": 1, "id": 1, "ok": False},
                                  {"v": 1, "id": 1, "ok": False, "error": {"code": 5, "text": "x"}}])
def test_what_is_no_answer_is_a_message_error(body):
    with pytest.raises(MessageError):
        messages.parse_reply(codec.pack(body))
