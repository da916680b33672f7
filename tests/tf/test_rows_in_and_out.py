"""Rows of a trained table go through files into a checkpoint with an empty table, and are the same bits in training."""
import json

import pytest

import ascpipe.tf as asc
from tests.support import parquets
from tests.tf.test_saving import SAVED, STEPS, TIERS, Run, ascpipe, saved_and_trained_on  # noqa: F401

TABLES = ("user", "item")
FORMATS = {"device": "parquet", "host": "npy", "disk": "tsv", "expansion": "parquet"}


def export(prefix, folder, file_format):
    """Export all columns; the lengths and digests of all files by table."""
    for table in TABLES:
        asc.export_rows(prefix, table, str(folder / table), format=file_format, slots=True, counts=True)
    return {table: json.loads((folder / table / "manifest.json").read_text())["files"] for table in TABLES}


def import_both(into, folder):
    for table in TABLES:
        into = asc.import_rows(into, table, str(folder / table)).checkpoint
    return into


@pytest.mark.parametrize("tier", TIERS)
def test_rows_that_went_through_files_are_the_same_bits(tier, tmp_path, monkeypatch, saved_and_trained_on):  # noqa: F811
    assert parquets.pyarrow is not None
    optimizer = "lazy_adam" if tier == "device" else "adagrad"
    prefix, losses, rows = saved_and_trained_on(tier, optimizer)
    (tmp_path / "out").mkdir()
    exported = export(prefix, tmp_path / "out", FORMATS[tier])
    with ascpipe(tier):
        empty = Run(tier, optimizer, monkeypatch).initialise()
        with empty.run:
            start = empty.saver.save(empty.run, str(tmp_path / "start" / "model"), global_step=0)
            filled = import_both(start, tmp_path / "out")
            assert filled == str(tmp_path / "start" / "model-imported2-0")
            empty.restore(filled)
            again = empty.saver.save(empty.run, str(tmp_path / "start" / "again"), global_step=0)
    (tmp_path / "again").mkdir()
    assert export(again, tmp_path / "again", FORMATS[tier]) == exported
    with ascpipe(tier):
        goes_on = Run(tier, optimizer, monkeypatch, skip=SAVED)
        with goes_on.run:
            goes_on.restore(import_both(prefix, tmp_path / "out"))
            assert goes_on.train(STEPS - SAVED) == losses
            assert goes_on.rows() == rows
