"""What the status tells of exchanges with other ranks."""
import re

import numpy as np

from ascpipe.daemon import statistics
from ascpipe.layout import structs, words
from tests.support import tree


def record(**fields):
    made = np.zeros(1, structs.EXCHANGES)[0]
    for name, value in fields.items():
        made[name] = value
    return made


def source(name):
    return (tree.ROOT / "tfops" / "src" / "peers" / name).read_text()


def test_one_rank_exchanges_nothing():
    assert statistics.exchanges(record(), 5.0) is None


def test_times_are_in_seconds_and_what_is_under_way_has_its_age():
    told = statistics.exchanges(record(rank=1, ranks=2, kind=2, stream=3, ticket=17, since_us=2500000, time_us=1500000,
                                       waited_us=500000, slowest=1, slowest_us=250000, bytes_sent=7), 4.0)
    assert (told["time_s"], told["waited_s"], told["slowest_s"], told["since_s"]) == (1.5, 0.5, 0.25, 1.5)
    assert (told["does"], told["stream"], told["ticket"], told["bytes_sent"]) == ("trains", 3, 17, 7)


def test_a_rank_that_exchanges_nothing_now_or_is_idle_waits_for_none():
    assert statistics.exchanges(record(ranks=2, kind=2), 4.0)["since_s"] is None
    assert statistics.exchanges(record(ranks=2, kind=statistics.IDLE, since_us=1), 4.0)["since_s"] is None


def test_the_exchanges_lie_behind_all_bells():
    bells = structs.SESSION_BELLS_OFFSET + structs.BELLS * structs.BELL.itemsize
    assert bells <= structs.SESSION_EXCHANGES_OFFSET
    assert structs.SESSION_EXCHANGES_OFFSET + structs.EXCHANGES.itemsize <= structs.SESSION_BYTES


def test_kinds_of_exchanges_are_those_of_the_messages():
    listed = re.search(r"enum class PeerKind .*?\{(.*?)\}", source("header.h"), re.DOTALL).group(1)
    kinds = re.findall(r"^  (k\w+)", listed, re.MULTILINE)
    texts = dict(re.findall(r"case PeerKind::(\w+):\s+return \"(.*)\";", source("header.cc")))
    assert {number: texts[kind] for number, kind in enumerate(kinds, 1)} == words.EXCHANGE_SENTENCES
    assert kinds[statistics.IDLE - 1] == "kIdle"
