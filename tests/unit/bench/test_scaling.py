"""The model of docs/internals/scaling.md: its sums, and the tables of the document, which it prints."""
import pytest

from bench import exchanged_bytes, scaling
from tests.support import tree


def test_a_step_of_two_ranks_sends_half_of_its_rows_and_gradients():
    of = scaling.step(2, 4096, dim=16, delay_s=0.02, cores=2)
    assert of.sent_bytes == pytest.approx(34535 / 2 * 140 + 1024 + 118.5e3)
    assert of.waits_s == pytest.approx(37 * 0.02)
    assert of.seconds(1.0) == pytest.approx(of.processor_s + of.waits_s + of.sent_bytes * 8e-9)


def test_the_document_has_the_table_that_the_model_prints():
    text = (tree.ROOT / "docs/internals/scaling.md").read_text()
    for line in scaling.table(4096, dim=16, delay_s=5e-5, cores=2):
        assert line in text


def test_copies_of_hot_rows_save_their_keys_alone():
    of = exchanged_bytes.Asked(distinct=1000.0, hot=100.0)
    now, sums, gathered = exchanged_bytes.sent_bytes(of, 2, 16)
    assert (now, sums, gathered) == (500 * 140, 500 * 140 - 50 * 12, 450 * 140 + 100 * 64)
    now, sums, gathered = exchanged_bytes.sent_bytes(of, 4, 16)
    assert sums < now < gathered


def test_a_key_is_hot_where_all_ranks_ask_for_it(monkeypatch):
    monkeypatch.setenv("BENCH_SMALL", "1")
    few, many = (exchanged_bytes.asked(ranks, 64) for ranks in (2, 8))
    assert few.distinct > few.hot > many.hot > 0
