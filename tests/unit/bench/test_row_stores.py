"""Stores of rows give back what was written, and say how fast."""
import pytest

from bench import row_stores


@pytest.mark.parametrize("name", ["row file", "memmap"])
def test_a_store_gives_back_the_rows_that_were_written_last(name, tmp_path):
    figures = row_stores.measure(name, str(tmp_path), 128, 5000, 3, threads=2)
    assert figures.read_rows_per_s > 0 and figures.write_rows_per_s > 0


def test_a_store_that_gives_back_other_rows_is_found_out(tmp_path, monkeypatch):
    class Forgets(row_stores.MemmapStore):
        def write(self, keys, rows):
            super().write(keys[1:], rows[1:])

    monkeypatch.setitem(row_stores.STORES, "memmap", (Forgets, None))
    with pytest.raises(ValueError, match="has rows that were not written so"):
        row_stores.measure("memmap", str(tmp_path), 128, 5000, 30, threads=1)
