"""``ascpipe checkpoint import --pad`` and ``--truncate``: rows of another dimension than the table."""
import json

import numpy as np
import pytest

from ascpipe.checkpoint.errors import DamagedRowsError, RowsNotImportedError
from ascpipe.checkpoint.reader import open_checkpoint
from tests.support import checkpoints, parquets
from tests.support.checkpoints import by_key, content
from tests.unit.checkpoint.test_rows_in import KEYS, LIST, ROWS, import_rows, npy, pa, parquet, text
from tests.unit.checkpoint.test_rows_out import FORMATS, ascpipe, export_rows

SLOTS = ("LazyAdam_momentum", "LazyAdam_velocity", "Adagrad_accumulator")
PADDING = {"row": 0.0, "LazyAdam_momentum": 0.0, "LazyAdam_velocity": 0.5, "Adagrad_accumulator": 1.0}


def table(dim, rows=0):
    return content("user", rows, 0, dim=dim, slots=SLOTS)


def resized(one, dim):
    """The rows and slots of a table, with another dimension."""
    spec = one.spec
    parts = np.split(one.block.rows, np.cumsum([spec.dim, *(slot.width for slot in spec.slots)])[:-1], axis=1)
    found = []
    for name, part in zip(["row", *SLOTS], parts):
        width = 1 if name == "LazyAdam_velocity" else dim
        padded = np.full((len(part), width), PADDING[name], np.float32)
        padded[:, :part.shape[1]] = part[:, :width]
        found.append(padded)
    return one.block._replace(rows=np.concatenate(found, axis=1))


@pytest.mark.parametrize("dim, option", [(2, "truncate"), (5, "truncate"), (7, "pad"), (30, "pad")])
@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.each_value
def test_an_export_is_padded_or_truncated_with_its_slots(tmp_path, file_format, dim, option):
    one = table(6, rows=20)
    prefix = checkpoints.save(tmp_path / "old", 5, [one])
    export_rows(prefix, "user", str(tmp_path / "out"), file_format, slots=True, counts=True)
    into = checkpoints.save(tmp_path / "new", 5, [table(dim)])
    done = ascpipe("import", tmp_path / "out", "--into", into, "--table", "user", "--" + option, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["rows"], found["added"]) == (20, 20)
    with open_checkpoint(found["checkpoint"]) as checkpoint:
        assert by_key(checkpoint.blocks("user")) == by_key([resized(one, dim)])


FILES = {
    "lists": lambda rows: parquet(key=KEYS, row=pa.array(rows.tolist(), LIST)),
    "fixed lists": lambda rows: parquet(key=KEYS, row=pa.array(rows.tolist(), pa.list_(pa.float32(), rows.shape[1]))),
    "columns": lambda rows: parquet(key=KEYS, **{"c%d" % place: rows[:, place] for place in range(rows.shape[1])}),
    "arrays": lambda rows: npy(keys=KEYS, rows=rows),
    "text": lambda rows: text(b"".join(
        b"%d\t%s\n" % (key, " ".join(map(str, row)).encode()) for key, row in zip(KEYS.tolist(), rows.tolist()))),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("dim", [3, 6])
@pytest.mark.each_value
def test_rows_of_other_programs_are_padded_or_truncated_on_request_only(tmp_path, name, dim):
    rows = np.random.RandomState(dim).randn(4, dim).astype(np.float32)
    source = FILES[name](rows)(tmp_path)
    into = checkpoints.save(tmp_path, 5, [content("user", 0, 0)])
    wrong, right = ({"pad": True}, {"truncate": True})[::1 if dim == 6 else -1]
    for given in ({}, wrong):
        with pytest.raises(RowsNotImportedError, match="E530: "):
            import_rows(into, source, **given)
    wanted = np.zeros((4, 4), np.float32)
    wanted[:, :dim] = rows[:, :4]
    for given in (right, {"pad": True, "truncate": True}):
        with open_checkpoint(import_rows(into, source, **given).checkpoint) as checkpoint:
            found = np.concatenate([block.rows[np.argsort(block.keys)] for block in checkpoint.blocks("user")])
        np.testing.assert_array_equal(found[:, :4], wanted[np.argsort(KEYS)])


def test_rows_of_the_same_dimension_are_imported_as_without_the_options(tmp_path):
    into = checkpoints.save(tmp_path, 5, [content("user", 0, 0)])
    found = [import_rows(into, npy(keys=KEYS, rows=ROWS)(tmp_path), **given).checkpoint
             for given in ({}, {"pad": True, "truncate": True})]
    contents = []
    for prefix in found:
        with open_checkpoint(prefix) as checkpoint:
            contents.append(by_key(checkpoint.blocks("user")))
    assert contents[0] == contents[1] and len(contents[0]) == 4


LONG = np.ones((4, 6), np.float32)
LONG[2, 5] = np.nan


@pytest.mark.parametrize("write, error, reason", [
    (npy(keys=KEYS, rows=LONG), RowsNotImportedError, "row 2 of .*not finite"),
    (parquet(key=KEYS, row=pa.array([*LONG[:3].tolist(), [1.0] * 5], LIST)), RowsNotImportedError,
     r"'row' has 5 floats, expected 6 \(in 1 row\)"),
    (text(b"1\t1 2 3 4 5 6\n2\t1 2 3 4 5\n"), RowsNotImportedError, "line 2 of .*it has 5 floats"),
    (text(b""), None, ""),
    (str, RowsNotImportedError, "the directory has neither"),
    (lambda folder: str(folder / "nothing.tsv"), RowsNotImportedError, "no such file"),
    (lambda folder: str(folder / "nothing.parquet"), RowsNotImportedError, "no such file"),
], ids=["nan", "other lengths", "a short line", "no line", "no file", "missing", "missing parquet"])
def test_files_with_errors_are_refused_with_the_options_too(tmp_path, write, error, reason):
    into = checkpoints.save(tmp_path, 5, [content("user", 0, 0)])
    source = write(tmp_path)
    if error is None:
        assert import_rows(into, source, pad=True, truncate=True).rows == 0
        return
    with pytest.raises(error, match=reason):
        import_rows(into, source, pad=True, truncate=True)


def test_damaged_headers_are_coded_errors(tmp_path):
    into = checkpoints.save(tmp_path, 5, [content("user", 0, 0)])
    source = npy(keys=KEYS, rows=ROWS)(tmp_path)
    (tmp_path / "rows.npy").write_bytes(b"\x93NUMPY\x01\x00")
    with pytest.raises(DamagedRowsError, match="E531: .*not an npy file"):
        import_rows(into, source, pad=True)
    path = parquets.write(tmp_path / "a.parquet", {"key": KEYS, "row": pa.array(ROWS.tolist(), LIST)})
    with open(path, "r+b") as file:
        file.truncate(40)
    with pytest.raises(DamagedRowsError, match="E531: "):
        import_rows(into, path, pad=True)

