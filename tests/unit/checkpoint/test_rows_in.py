"""``ascpipe checkpoint import``: a new checkpoint has what a dictionary has, and the old one is not changed."""
import json
import os
import re
import resource
import shutil

import numpy as np
import pytest

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import Block
from ascpipe.checkpoint.errors import RowsNotImportedError
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.errors import ArgumentError
from ascpipe.rows import sources
from ascpipe.rows.imports import Imported, Request, imported
from tests.support import checkpoints, parquets
from tests.support.checkpoints import Content, by_key, content, tree_of
from tests.unit.checkpoint import test_slices
from tests.unit.checkpoint.test_rows_out import FORMATS, ascpipe, chain, export_rows

pa = parquets.pyarrow
EMPTY = content("user", 0, 0)
ITEM = content("item", 9, 3, pool_rows=2)
INITIAL = (0.0, 0.5)  # of the slots of ``content``


def import_rows(into, source, **given):
    return imported(Request(into, "user", str(source), **given))


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    monkeypatch.setattr(sources, "_MOST_ROWS", 7)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Prefix of a checkpoint that no test changes."""
    return test_slices.save(tmp_path_factory.mktemp("empty"), 5, 2, [EMPTY, ITEM])


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """folder with an export of each format, and the content."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(disk, "sync", os.fstat)
        prefix, one = chain(folder, 2)
        for name in FORMATS:
            export_rows(prefix, "user", str(folder / name), name, slots=True, counts=True)
            export_rows(prefix, "user", str(folder / ("bare " + name)), name)
    return folder, one


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.each_value
def test_an_export_that_is_imported_into_an_empty_table_is_the_same_table(tmp_path, exported, file_format, ranks):
    folder, one = exported
    into = test_slices.save(tmp_path, 5, ranks, [EMPTY, ITEM])
    before = tree_of(tmp_path)
    found = import_rows(into, folder / file_format)
    rows = len(one.block.keys)
    assert found == Imported(str(tmp_path / "model.ckpt-imported-5"), "user", rows, rows, 0, 0)
    with open_checkpoint(found.checkpoint) as new, open_checkpoint(into) as old:
        assert by_key(new.blocks("user")) == by_key([one.block])
        assert (len(new.positions), new.step) == (ranks, 5)
        latest = max(EMPTY.spec.policies.time, int(one.block.timestamps.max()))
        spec = EMPTY.spec._replace(rows=rows, policies=EMPTY.spec.policies._replace(time=latest))
        test_slices.assert_holds(new, [Content(spec, one.block, EMPTY.candidates), ITEM], ranks)
        for mine, its in zip(new.positions, old.positions):
            assert mine.run_id.startswith("import-") and mine._replace(run_id=its.run_id) == its
        with open(new.dense_prefix + ".index") as mine, open(old.dense_prefix + ".index") as its:
            assert mine.read() == its.read()
    assert {name: text for name, text in tree_of(tmp_path).items() if "imported" not in name} == before
    export_rows(found.checkpoint, "user", str(tmp_path / "again"), file_format, slots=True, counts=True)
    again, first = (json.loads((path / "manifest.json").read_text())["files"] for path in (
        tmp_path / "again", folder / file_format))
    assert again == first


def merged(old, new, merge, given, counts=True):
    """key -> (row with slots, count, timestamp) of a table after an import, and its candidates, by dictionaries."""
    there = {int(key): (row, int(count), int(time)) for key, row, count, time in zip(*old.block)}
    others = {int(key): (int(count), int(time)) for key, count, time in zip(*old.candidates)}
    threshold, time = old.spec.policies.access_threshold, old.spec.policies.time
    for key, row, count, stamp in zip(*new.block):
        key = int(key)
        if key in there and merge == "keep":
            continue
        if not given:
            row = np.concatenate([row[:4], np.full(4, INITIAL[0]), np.full(1, INITIAL[1])]).astype(np.float32)
        if not counts:
            count, stamp = there[key][1:] if key in there else others.get(key, (threshold, time))
            count = count if key in there else max(count, threshold)
        there[key] = (row, int(count), int(stamp))
        others.pop(key, None)
    return there, others


@pytest.mark.parametrize("merge", ["keep", "replace"])
@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.each_value
def test_rows_are_merged_into_a_table_as_into_a_dictionary(tmp_path, exported, merge, is_bare, ranks):
    folder, new = exported
    keys = new.block.keys
    old = content("user", 30, 8, seed=9)
    old = Content(old.spec, old.block._replace(keys=np.append(keys[::4][:12], old.block.keys[12:] // 3)),
                  old.candidates._replace(keys=np.append(keys[1::4][:5], [5, 6, 7])))
    into = test_slices.save(tmp_path, 5, ranks, [ITEM, old])
    rows, others = merged(old, new, merge, not is_bare, not is_bare)
    source = folder / ("bare npy" if is_bare else "parquet")
    found = import_rows(into, source, merge=merge, to=str(tmp_path / "fine-7"))
    assert found == Imported(str(tmp_path / "fine-7"), "user", len(rows), len(keys) - 12, 12 * (merge == "replace"),
                             12 * (merge == "keep"))
    with open_checkpoint(found.checkpoint) as checkpoint:
        assert by_key(checkpoint.blocks("user")) == {
            key: (row.tobytes(), np.int64(count).tobytes(), np.int64(time).tobytes())
            for key, (row, count, time) in rows.items()}
        assert by_key(checkpoint.candidates("user")) == {
            key: (np.int64(count).tobytes(), np.int64(time).tobytes()) for key, (count, time) in others.items()}
        assert (checkpoint.tables["user"].rows, checkpoint.tables["user"].candidates) == (len(rows), len(others))
        assert by_key(checkpoint.blocks("item")) == by_key([ITEM.block])


def test_a_delta_becomes_a_full_checkpoint(tmp_path, exported):
    prefix, one = chain(tmp_path, 2)
    found = import_rows(prefix, exported[0] / "npy")
    assert (found.checkpoint, found.added) == (str(tmp_path / "model.ckpt-imported-3"), 0)
    shutil.rmtree(str(tmp_path / "sparse-model.ckpt-1"))
    with open_checkpoint(found.checkpoint) as checkpoint:
        assert by_key(checkpoint.blocks("user")) == by_key([one.block])


def test_names_of_new_checkpoints(tmp_path, exported):
    into = checkpoints.save(tmp_path, 5, [EMPTY])
    source = exported[0] / "npy"
    names = [os.path.basename(import_rows(into, source).checkpoint) for _ in range(3)]
    assert names == ["model.ckpt-imported-5", "model.ckpt-imported2-5", "model.ckpt-imported3-5"]
    assert import_rows(str(tmp_path / names[1]), source).checkpoint == str(tmp_path / "model.ckpt-imported4-5")
    into = checkpoints.save(tmp_path, None, [EMPTY])
    assert import_rows(into, source).checkpoint == str(tmp_path / "model.ckpt-imported")
    for name in ("model.ckpt-5", "model.ckpt-imported"):
        with pytest.raises(ArgumentError, match="E260: to=.* is the name of an existing checkpoint"):
            import_rows(into, source, to=str(tmp_path / name))
    with open_checkpoint(import_rows(into, source, to=str(tmp_path / "new" / "m-12")).checkpoint) as checkpoint:
        assert checkpoint.step == 12


def test_the_command_prints_what_it_imported(tmp_path, exported):
    folder, one = exported
    into = checkpoints.save(tmp_path, 5, [EMPTY])
    rows = len(one.block.keys)
    done = ascpipe("import", folder / "tsv", "--into", into, "--table", "user")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "{}  table user: {} rows added, 0 replaced, 0 kept, {} in total\n".format(
        tmp_path / "model.ckpt-imported-5", rows, rows)
    done = ascpipe("import", folder / "npy", "--into", tmp_path / "model.ckpt-imported-5", "--table", "user",
                   "--merge", "keep", "--to", tmp_path / "x-1", "--json")
    assert json.loads(done.stdout) == {"checkpoint": str(tmp_path / "x-1"), "table": "user", "rows": rows, "added": 0,
                                       "replaced": 0, "kept": rows}
    done = ascpipe("import", folder / "nothing", "--into", into, "--table", "user")
    assert (done.exit_code, done.stdout) == (1, "") and re.search("E530: .*no such file", done.stderr)


KEYS = np.array([5, -3, 1 << 40, 8], np.int64)
ROWS = np.arange(16, dtype=np.float32).reshape(4, 4) / 3
LIST, FIXED = pa.list_(pa.float64()), pa.list_(pa.float32(), 4)


def parquet(**columns):
    return lambda path: parquets.write(path / "a.parquet", dict(columns), 2)


def npy(**arrays):
    def write(path):
        for name, values in arrays.items():
            np.save(str(path / (name + ".npy")), values)
        return str(path)
    return write


def text(content_of, name="a.tsv"):
    def write(path):
        (path / name).write_bytes(content_of)
        return str(path / name)
    return write


LINES = b"".join(b"%d\t%s\n" % (key, b" ".join(b"%.9g" % value for value in row.tolist()))
                 for key, row in zip(KEYS.tolist(), ROWS))
OF_OTHERS = {
    "lists of doubles": parquet(id=KEYS, vector=pa.array(ROWS.astype(np.float64).tolist(), LIST)),
    "lists of four": parquet(key=KEYS, row=pa.array(ROWS.tolist(), FIXED), other=pa.array(["a"] * 4)),
    "columns of floats": parquet(a=ROWS[:, 0], key=pa.array(KEYS), b=ROWS[:, 1], c=ROWS[:, 2], d=ROWS[:, 3]),
    "names in the plural": parquet(keys=KEYS, age=KEYS, embedding=pa.array(ROWS.tolist(), LIST),
                                   other=pa.array(ROWS.tolist(), LIST)),
    "a pair of arrays": npy(keys=KEYS, rows=ROWS),
    "arrays of other types": npy(keys=KEYS.astype(">i8"), rows=ROWS.astype(np.float64)),
    "text": text(LINES),
    "text of Windows without an end": text(LINES.replace(b"\n", b"\r\n")[:-2], "a.txt"),
}


def test_counts_and_timestamps_of_others_are_imported(tmp_path):
    source = parquet(id=KEYS, count=KEYS + 10, timestamp=KEYS + 5, vector=pa.array(ROWS.tolist(), FIXED))(tmp_path)
    found = import_rows(checkpoints.save(tmp_path, 5, [EMPTY]), source)
    with open_checkpoint(found.checkpoint) as checkpoint:
        (block,) = checkpoint.blocks("user")
        assert (block.counts.tolist(), block.timestamps.tolist()) == ((KEYS + 10).tolist(), (KEYS + 5).tolist())


def test_more_parquet_files_than_a_process_may_open_are_imported(tmp_path):
    (tmp_path / "files").mkdir()
    for key in range(40):
        parquets.write(tmp_path / "files" / "{}.parquet".format(key), {"key": [key], "row": pa.array([[0.0] * 4])})
    into = checkpoints.save(tmp_path, 5, [EMPTY])
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 35, limits[1]))
    try:
        assert import_rows(into, tmp_path / "files").rows == 40
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_files_of_other_programs_are_imported(tmp_path, name):
    (tmp_path / "files").mkdir()
    into = checkpoints.save(tmp_path, 5, [EMPTY])
    found = import_rows(into, OF_OTHERS[name](tmp_path / "files"))
    spec = EMPTY.spec
    rows = np.concatenate([ROWS, np.full((4, 4), INITIAL[0]), np.full((4, 1), INITIAL[1])], axis=1).astype(np.float32)
    wanted = Block(KEYS, rows, np.full(4, spec.policies.access_threshold), np.full(4, spec.policies.time))
    with open_checkpoint(found.checkpoint) as checkpoint:
        assert by_key(checkpoint.blocks("user")) == by_key([wanted])


def test_a_directory_of_parquet_files_is_imported_together(tmp_path):
    (tmp_path / "files").mkdir()
    for name, part in (("b", slice(0, 2)), ("a", slice(2, 4)), (".c", slice(2, 4))):
        parquets.write(tmp_path / "files" / (name + ".parquet"),
                       {"key": KEYS[part], "row": pa.array(ROWS[part].tolist(), LIST)})
    found = import_rows(checkpoints.save(tmp_path, 5, [EMPTY]), tmp_path / "files")
    assert found.rows == 4
    with pytest.raises(RowsNotImportedError, match=r"E530: .*row 1 of row group 0 of .*b.parquet: key -3 occurs twice, "
                                                   r"first in row 1 of row group 0 of .*a.parquet \(in 2 rows\)"):
        parquets.write(tmp_path / "files" / "a.parquet", {"key": KEYS[:2], "row": pa.array(ROWS[:2].tolist(), LIST)})
        import_rows(checkpoints.save(tmp_path, 6, [EMPTY]), tmp_path / "files")


def changed(values, place, value):
    values = values.copy()
    values[place] = value
    return values


LISTS = pa.array(ROWS.tolist(), LIST)
WRONG = {
    "a longer row in Parquet": (parquet(key=KEYS, row=pa.array([*ROWS[:3].tolist(), [1.0] * 5], LIST)),
                                r"row 1 of row group 1 of .*: column 'row' has 5 floats, expected 4 \(in 1 row\)"),
    "rows of another length in Parquet": (parquet(key=KEYS, row=pa.array(ROWS[:, :3].tolist(), LIST)),
                                          r"row 0 of row group 0 of .*: column 'row' has 3 floats, expected 4. To "
                                          r"append zeros to the rows, pass --pad .pad=True in Python. \(in 4 rows\)"),
    "lists of another fixed length": (parquet(key=KEYS, embedding=pa.array(np.tile(ROWS, 2).tolist(),
                                                                           pa.list_(pa.float32(), 8))),
                                      r"'embedding' has 8 floats, expected 4. To drop their .* pass --truncate"),
    "very long lists": (parquet(key=KEYS, row=pa.array([[1.0] * 9000] * 4, LIST)),
                        r"row group 0 of .* has 18000 values in 2 rows, expected at most 8 \(in 2 rows\)"),
    "a null in Parquet": (parquet(key=KEYS, row=pa.array([None, *ROWS[1:].tolist()], LIST)),
                          r"row 0 of row group 0 of .*'row' is null"),
    "a null in a list": (parquet(key=KEYS, embedding=pa.array([[1.0, None, 2.0, 3.0], *ROWS[1:].tolist()], LIST)),
                         r"row 0 of row group 0 of .*'embedding' has the value nan, which is not finite \(in 1 row\)"),
    "a null key": (parquet(key=pa.array([1, 2, None, 4]), row=LISTS), r"row 0 of row group 1 of .*'key' is null"),
    "keys of text": (parquet(key=pa.array(list("abcd")), row=LISTS),
                     "it has the columns key .string., row .*'key', and"),
    "unsigned keys": (parquet(key=KEYS.view(np.uint64), row=LISTS), "key .uint64.* use int64"),
    "no keys": (parquet(row=LISTS), "Name the column of the keys 'key'"),
    "several keys": (parquet(a=KEYS, b=KEYS, row=LISTS), "Name the column of the keys 'key'"),
    "no rows": (parquet(key=KEYS), "lists of 4 floats, or write 4 columns of floats"),
    "five floats": (parquet(key=KEYS, **{"c%d" % place: ROWS[:, 0] for place in range(5)}), "or write 4 columns"),
    "several lists": (parquet(key=KEYS, a=LISTS, b=LISTS), "Name the column of the rows 'row'"),
    "a slot that the table does not have": (parquet(key=KEYS, row=LISTS, slot_Adagrad_accumulator=LISTS),
                                            "no such optimizer slot; it has LazyAdam_momentum, LazyAdam_velocity"),
    "counts of text": (parquet(key=KEYS, row=LISTS, count=pa.array(list("abcd"))),
                       "column 'count' has the type string"),
    "a count below 0": (parquet(key=KEYS, row=LISTS, count=changed(KEYS, 1, -3)),
                        r"row 1 of row group 0 of .*'count' has the value -3, which is below 0 \(in 1 row\)"),
    "a key twice": (npy(keys=changed(KEYS, 3, 5), rows=ROWS),
                    r"row 3 of .*: key 5 occurs twice, first in row 0 of .* \(in 1 row\)"),
    "not finite": (npy(keys=KEYS, rows=changed(ROWS, ([1, 3], [2, 0]), np.inf)),
                   r"row 1 of .*: column 'row' has the value inf, which is not finite \(in 2 rows\)"),
    "not float32": (npy(keys=KEYS, rows=changed(ROWS.astype(np.float64), (2, 3), 1e39)), "row 2 of .* value inf"),
    "other rows": (npy(keys=KEYS, rows=ROWS[:, :3]), r"rows.npy: its shape is \[4, 3\], but the table has \[n, 4\] "
                                                     r"\(in 4 rows\)"),
    "fewer rows": (npy(keys=KEYS, rows=ROWS[:3]), "rows.npy: it has 3 rows, but there are 4 keys"),
    "missing rows": (npy(keys=KEYS), "rows.npy: the file is missing; the column 'row' is needed"),
    "keys of floats": (npy(keys=ROWS[:, 0], rows=ROWS), "keys.npy: its values are float32, expected int64"),
    "objects": (npy(keys=KEYS, rows=ROWS.astype(object)), "rows.npy: its values are object, expected float32"),
    "Fortran order": (npy(keys=KEYS, rows=np.asfortranarray(ROWS)), "rows.npy: its values are in Fortran order"),
    "a short line": (text(LINES + b"9\t1 2 3\n10\t1\n"), r"line 5 of .*: it has 3 floats, but the table has 4 \(in 2 "),
    "a line without a tab": (text(b"1 1 2 3 4\n" + LINES), "line 1 of .*: it has 1 columns, expected 2: key, row"),
    "a header": (text(b"key\trow\n" + LINES), "line 1 of .*: 'key' is not an int64"),
    "an empty line": (text(LINES + b"\n"), "line 5 of .*: it has 1 columns"),
    "a large key": (text(b"9223372036854775808\t1 2 3 4\n"), "'9223372036854775808' is not an int64"),
    "no number": (text(LINES + b"9\t1 2 3 x\n"), "line 5 of .*: could not convert string to float"),
    "an underscore": (text(LINES + b"9\t1 2 3 4_0\n"), "line 5 of .*: a number has an underscore"),
    "nan": (text(LINES + b"9\t1 2 3 nan\n"), r"line 5 of .*'row' has the value nan, which is not finite \(in 1 row\)"),
    "too large": (text(LINES + b"9\t1 2 3 1e300\n"), "line 5 of .* the value inf"),
    "further columns": (text(b"1\t1 2 3 4\t5\n"), "line 1 .*it has 3 columns, expected 2: key, row. Only the manifest"),
    "another name": (text(LINES, "a.csv"), "its name has no known format"),
    "an empty directory": (str, "the directory has neither a manifest.json nor keys.npy nor Parquet files"),
}


@pytest.mark.parametrize("name", WRONG)
def test_rows_that_do_not_fit_are_refused_before_anything_is_changed(tmp_path, empty, name):
    write, reason = WRONG[name]
    folder = os.path.dirname(empty)
    before = tree_of(folder)
    with pytest.raises(RowsNotImportedError, match="E530: .*{}.*Nothing was written or changed".format(reason)):
        import_rows(empty, write(tmp_path))
    assert tree_of(folder) == before
    assert sorted(os.listdir(folder)) == sorted({name.split("/")[0] for name in before})
