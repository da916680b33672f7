"""Parquet files of tests. ``pyarrow`` is the optional extra ``ascpipe[parquet]``."""
import numpy as np
import pytest

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'ascpipe[parquet]'")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path, table, rows=None, **options):
    """Write a table, or a dict of columns, with ``rows`` rows in each row group. Return the path as text."""
    table = table if isinstance(table, pyarrow.Table) else pyarrow.table(table)
    parquet.write_table(table, str(path), row_group_size=rows or max(table.num_rows, 1), **options)
    return str(path)


def clicks(count, first=0):
    """Return columns of ``count`` records whose values are functions of their number, with the types of the models."""
    numbers = list(range(first, first + count))
    return {"user": np.array(numbers, np.int64) * 7, "label": np.array(numbers, np.float32) % 2,
            "tags": pyarrow.array([list(range(number % 4)) for number in numbers], pyarrow.list_(pyarrow.int64())),
            "dense": pyarrow.array([[number, .5, -1] for number in numbers], pyarrow.list_(pyarrow.float32(), 3)),
            "query": pyarrow.array(["text {}".format(number) for number in numbers], pyarrow.string()),
            "place": pyarrow.array([str(number % 5) for number in numbers], pyarrow.string()).dictionary_encode()}
