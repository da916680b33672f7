"""Records of ranks belong together if they are of one run; their figures are differences of counters."""
import pytest

from ascpipe.control.run_record import Record
from ascpipe.report.ranks import of_one_run, rank_figures


def record(rank, ranks=3, start=100.0, program="train.py", name=None):
    """Three samples, ten seconds apart. Rank r waits r seconds of the first ten, and 2 r of the second ten."""
    samples = [{"time": start + 10 * number, "uptime_s": 5.0 + 10 * number, "trainer": {"run": 7},
                "rings": [{"channel": "train", "trained": 100 * number}, {"channel": "eval", "trained": 5000}],
                "exchanges": None if ranks == 1 else {
                    "rank": rank, "ranks": ranks, "bytes_sent": 1000 * number * (rank + 1),
                    "bytes_received": 50 * number, "time_s": 4.0 * number,
                    "waited_s": rank * waited, "slowest": 0, "slowest_s": 2.5 + rank}}
               for number, waited in enumerate((0.0, 1.0, 3.0))]
    return Record(name or "daemon-{}-7".format(rank), {"daemon": "daemon-{}".format(rank), "program": program}, samples)


def test_ranks_of_one_run_come_in_their_order():
    ranks = [record(rank) for rank in range(3)]
    assert of_one_run(ranks[1], [ranks[2], ranks[0]]) == ranks
    assert of_one_run(ranks[1], []) == [ranks[1]]
    assert of_one_run(record(0, ranks=1), ranks) == []


@pytest.mark.parametrize("other", [
    record(0, ranks=2), record(0, program="other.py"), record(0, start=300.0), record(0, ranks=1), record(1)])
def test_a_record_of_another_run_does_not_belong(other):
    assert of_one_run(record(1), [other])[0].samples[-1]["exchanges"]["rank"] == 1


def test_of_two_records_of_a_rank_the_one_that_started_nearest_belongs():
    near, far = record(0, start=101.0, name="near-7"), record(0, start=90.0, name="far-7")
    for others in ([near, far], [far, near]):
        assert [one.name for one in of_one_run(record(1), others)] == ["near-7", "daemon-1-7"]


def test_figures_are_differences_of_counters():
    told = rank_figures([record(0), record(2)])
    assert (told["count"], told["slowest"], told["slowest_s"]) == (3, 0, 4.5)
    first, second = told["ranks"]
    assert (first["rank"], first["daemon"], first["steps"], first["sent_bytes"]) == (0, "daemon-0", 10.0, 100.0)
    assert (second["sent_bytes"], second["received_bytes"], second["exchanging"]) == (300.0, 5.0, 0.4)
    assert first["waited"] == 0.0 and second["waited"] == pytest.approx(0.3)
    assert second["waits"] == [(10.0, pytest.approx(0.2)), (20.0, pytest.approx(0.4))]
    assert rank_figures([]) is None
