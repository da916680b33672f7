"""The case `usual_large`: large tables, and small ones in a run with small sizes."""
from bench import usual_sides, workloads
from bench.cases import usual_large


def test_each_size_of_a_table_has_zipf_distributed_and_uniform_ids():
    found = {(one.keys, one.exponent) for one in usual_large.SETTINGS.values()}
    assert found == {(keys, exponent) for keys in (10 ** 6, 2 * 10 ** 6) for exponent in (0, 1.05)}
    assert set(usual_large.CASE.goals) == set(usual_large.CASE.variants)


def test_tables_and_batches_are_small_in_a_run_with_small_sizes(monkeypatch):
    monkeypatch.setenv(workloads.SMALL_VARIABLE, "1")
    small = usual_sides.sized(usual_large.SETTINGS["26x4096-2m"])
    assert (small.keys, small.batches) == (8192, 16)
