"""Rows on disk: what they cost to write, simulated, and what the measurement of row files prints."""
import pytest

from bench import row_files, row_placement


@pytest.mark.parametrize("exponent", [0.0, 1.05])
def test_a_file_of_which_a_fifth_is_free_writes_three_bytes_for_one_at_most(exponent):
    case = row_placement.Case(30, 128, exponent, keys=40_000, batch=1000, warm=60, measured=20)
    written = row_placement.Simulated(case, 0.8).bytes_per_byte()
    assert 1.5 < written < 3.0
    assert written < row_placement.Simulated(case, 0.94).bytes_per_byte()


def test_row_files_are_measured(tmp_path, capsys):
    found = row_files.main(["--directory", str(tmp_path), "--rows", "20000", "--batches", "1", "--row-bytes", "128"])
    assert found[128].read_rows_per_s > 0 and 1.0 < found[128].written_per_byte < 5
    assert capsys.readouterr().out.startswith("128 B: ")
