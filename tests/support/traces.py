"""Id traces for tests: generated ones, which need no file, and real ones.

The files of the real ones may not be copied into this tree, so tests without them skip with that reason.
"""
import csv
import io
import os
from pathlib import Path
from typing import Callable, Dict

import numpy as np
import pytest

from examples.dlrm import generator
from tests.support import tree

FOLDER = Path(os.environ.get("TEST_DATA", str(tree.ROOT.parent / "shared/data")))


GENERATED = "generated"
_GENERATED_ROWS = 8000  # as many as the Criteo sample has


def _generated() -> np.ndarray:
    written = io.BytesIO()
    generator.Rows(seed=1).write(written, _GENERATED_ROWS)
    return _fields_of(written.getvalue().decode())


def _criteo() -> np.ndarray:
    return _fields_of(_file("criteo/criteo_kaggle_8k.tsv").read_text())


def _fields_of(text: str) -> np.ndarray:
    """int64[rows, 26]: the categorical columns of rows in the Criteo format; -1 for an empty one."""
    rows = [line.split("\t")[14:] for line in text.splitlines()]
    return np.array([[int(value or "-1", 16) for value in row] for row in rows], np.int64)


def _movielens() -> np.ndarray:
    with np.load(str(_file("movielens-1m/ratings_user_movie.npz"))) as arrays:
        trace = np.stack([arrays["user"], arrays["movie"]], axis=1).astype(np.int64)
    return trace[np.random.RandomState(7).permutation(len(trace))]


def _talkingdata() -> np.ndarray:
    with _file("talkingdata/train_sample.csv").open() as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["click_time"])
    fields = ("ip", "app", "device", "os", "channel")
    return np.array([[int(row[field]) for field in fields] for row in rows], np.int64)


_READERS: Dict[str, Callable[[], np.ndarray]] = {
    GENERATED: _generated, "criteo": _criteo, "movielens": _movielens, "talkingdata": _talkingdata}
_READ: Dict[str, np.ndarray] = {}


def read(name: str) -> np.ndarray:
    """int64[rows, fields] of keys, distinct across fields: MovieLens-1M shuffled, TalkingData by time, others in order.

    Skips the test where the file is missing.
    """
    if name not in _READ:
        values = _READERS[name]()
        _READ[name] = values + (np.arange(values.shape[1], dtype=np.int64) << 40)
    return _READ[name]


def _file(name: str) -> Path:
    path = FOLDER / name
    if not path.exists():
        pytest.skip("needs {}, whose terms forbid copying it here; TEST_DATA names its folder".format(name))
    return path
