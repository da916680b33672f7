"""``ascpipe checkpoint export``: what a dictionary has, in the order of keys."""
import io
import json
import os
import re
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from ascpipe.checkpoint import disk, sealed_json
from ascpipe.checkpoint.contents import Block
from ascpipe.checkpoint.errors import (
    CheckpointMismatchError,
    DamagedCheckpointError,
    RowsNotExportedError,
    UnverifiedCheckpointError,
)
from ascpipe.checkpoint.reader import ALLOW_UNVERIFIED
from ascpipe.cli import checkpoint_rows, main
from ascpipe.errors import ArgumentError, ParquetMissingError
from ascpipe.rows import conditions, export, imports, manifest, sorting
from ascpipe.rows.export import Request, exported
from ascpipe.rows.imports import imported
from tests.support import checkpoints, parquets
from tests.support.checkpoints import Content, content
from tests.unit.checkpoint import test_slices

FORMATS = ("parquet", "npy", "tsv")


def ascpipe(*arguments):
    return CliRunner(mix_stderr=False).invoke(main.main, ["checkpoint", *map(str, arguments)])


def export_rows(prefix, table, to, format="parquet", **given):  # noqa: A002
    return exported(Request(prefix, table, to, format, **given))


def columns_of(folder, widths):
    """Each column of an export, as an array."""
    found = manifest.decoded((folder / "manifest.json").read_bytes())
    if found.file_format == "npy":
        names = {"key": "keys", "row": "rows", "count": "counts", "timestamp": "timestamps"}
        return {name: np.load(str(folder / (names.get(name, name) + ".npy"))) for name in widths}
    if found.file_format == "parquet":
        table = parquets.parquet.read_table(str(folder / "rows.parquet"))
        return {name: np.array(table[name].to_pylist(), np.float32 if width else np.int64).reshape(
            (-1, width) if width else -1) for name, width in widths.items()}
    lines = [line.split("\t") for line in (folder / "rows.tsv").read_text().splitlines()]
    return {name: np.array([line[place].split(" ") for line in lines]).astype(
        np.float32 if width else np.int64).reshape((-1, width) if width else -1)
        for place, (name, width) in enumerate(widths.items())}


def widths_of(spec):
    return {"key": 0, "row": spec.dim, **{"slot_" + slot.name: slot.width for slot in spec.slots},
            "count": 0, "timestamp": 0}


def oracle(one, keep=lambda key, count, timestamp: True):
    """The columns of a table's content, by a dictionary."""
    rows = {int(key): (row, int(count), int(timestamp)) for key, row, count, timestamp in zip(*one.block)}
    kept = sorted(key for key, (_, count, timestamp) in rows.items() if keep(key, count, timestamp))
    floats = np.array([rows[key][0] for key in kept], np.float32).reshape(-1, one.spec.row_floats)
    found, start = {"key": np.array(kept, np.int64)}, 0
    for name, width in list(widths_of(one.spec).items())[1:-2]:
        found[name] = floats[:, start:start + width]
        start += width
    return {**found, **{name: np.array([rows[key][place] for key in kept], np.int64)
                        for place, name in ((1, "count"), (2, "timestamp"))}}


def assert_same(found, wanted):
    assert list(found) == list(wanted)
    for name, values in wanted.items():
        assert (found[name].dtype, found[name].shape) == (values.dtype, values.shape)
        assert found[name].tobytes() == values.tobytes(), name


def chain(folder, ranks, rows=60):
    """(prefix, content) of a full checkpoint with two deltas, which change, delete and add keys."""
    whole = content("user", rows, 6, seed=1)
    prefix = test_slices.save(folder, 1, ranks, [whole])
    there = dict(zip(whole.block.keys.tolist(), zip(*whole.block[1:])))
    for step, (first, last, gone) in ((2, (0, 8, 12)), (3, (5, 20, 24))):
        later = content("user", last - first, 0, seed=step)
        keys = np.append(whole.block.keys[first:last - 2], later.block.keys[:2] // 2 + step)
        block, deleted = later.block._replace(keys=keys), whole.block.keys[last:gone]
        told = Content(later.spec._replace(deleted=len(deleted)), block, later.candidates, None, deleted)
        prefix = test_slices.save(folder, step, ranks, [told], parent=prefix)
        there.update(zip(keys.tolist(), zip(*block[1:])))
        for key in deleted.tolist():
            there.pop(key, None)
    rows, counts, timestamps = zip(*there.values())
    block = Block(np.array(list(there), np.int64), np.array(rows), np.array(counts), np.array(timestamps))
    return prefix, Content(whole.spec, block, whole.candidates)


@pytest.fixture(params=[1 << 24, 700], ids=["at once", "in ranges"])
def part_bytes(request, monkeypatch):
    monkeypatch.setattr(sorting, "_PART_BYTES", request.param)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.each_value
def test_an_export_has_what_a_dictionary_has(tmp_path, file_format, ranks, part_bytes):
    prefix, one = chain(tmp_path, ranks)
    found = export_rows(prefix, "user", str(tmp_path / "out"), format=file_format, slots=True, counts=True)
    assert_same(columns_of(tmp_path / "out", widths_of(one.spec)), oracle(one))
    assert (found.rows, found.table, found.dim, found.step) == (len(one.block.keys), "user", 4, 3)
    assert sorted(os.listdir(str(tmp_path / "out"))) == sorted(["manifest.json", *found.files])
    assert not [name for name in os.listdir(str(tmp_path)) if name.endswith(".tmp")]


def test_files_do_not_depend_on_the_order_in_which_rows_were_saved(tmp_path, monkeypatch):
    one = content(rows=50)
    order = np.argsort(one.block.keys)
    other = Content(one.spec, Block(*(values[order] for values in one.block)), one.candidates)
    digests = []
    for step, (saved, size) in enumerate([(one, 1 << 24), (other, 1 << 24), (one, 300), (one, 1)]):
        monkeypatch.setattr(sorting, "_PART_BYTES", size)
        prefix = checkpoints.save(tmp_path, step, [saved])
        digests.append({name: export_rows(prefix, "user", str(tmp_path / "{}-{}".format(name, step)), format=name,
                                          slots=True, counts=True).files for name in FORMATS})
    assert digests[0] == digests[1] == digests[2] == digests[3]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("file_format", FORMATS)
def test_tables_without_rows_or_with_one_are_exported(tmp_path, file_format, rows):
    one = content(rows=rows, dim=1, slots=())
    found = export_rows(checkpoints.save(tmp_path, 1, [one]), "user", str(tmp_path / "out"), format=file_format,
                        counts=True)
    assert found.rows == rows
    if rows or file_format != "tsv":
        assert_same(columns_of(tmp_path / "out", widths_of(one.spec)), oracle(one))


@pytest.mark.parametrize("text, keep", [
    ("count>=500000000000", lambda key, count, timestamp: count >= 500000000000),
    ("key != 0 and timestamp < 4000000000 and key<=5", lambda key, count, timestamp: (
        key != 0 and timestamp < 4000000000 and key <= 5)),
    ("key == -9223372036854775808", lambda key, count, timestamp: key == -(1 << 63)),
    ("count < 0", lambda key, count, timestamp: False),
])
@pytest.mark.each_value
def test_a_condition_chooses_rows(tmp_path, text, keep, part_bytes):
    prefix, one = chain(tmp_path, 1)
    found = export_rows(prefix, "user", str(tmp_path / "out"), format="npy", where=text)
    wanted = {name: oracle(one, keep)[name] for name in ("key", "row")}
    assert_same(columns_of(tmp_path / "out", {"key": 0, "row": 4}), wanted)
    assert (found.where, found.rows) == (text, len(wanted["key"]))


@pytest.mark.parametrize("text", ["", "count", "count>=", "counts>=3", "count>=3 or count<2", "count>=1e3", "count>=3;",
                                  "count>=9223372036854775808", "3<=count", "__import__('os')>=3"])
def test_what_is_no_condition_is_refused(text):
    with pytest.raises(ArgumentError, match="E260: Condition .* Write, for example, 'count>=10'"):
        conditions.parsed(text)


def test_float16_has_half_the_bytes_and_refuses_what_it_cannot_hold(tmp_path):
    one = content(rows=30)
    prefix = checkpoints.save(tmp_path, 1, [one])
    export_rows(prefix, "user", str(tmp_path / "half"), format="npy", slots=True, dtype="float16")
    wanted = oracle(one)
    halves = np.load(str(tmp_path / "half" / "rows.npy"))
    assert halves.dtype == np.float16 and halves.tobytes() == wanted["row"].astype(np.float16).tobytes()
    export_rows(prefix, "user", str(tmp_path / "text"), format="tsv", dtype="float16")
    texts = [line.split("\t")[1].split() for line in (tmp_path / "text" / "rows.tsv").read_text().splitlines()]
    assert np.array(texts).astype(np.float16).tobytes() == halves.tobytes()
    one.block.rows[7, 2] = 1e5
    prefix = checkpoints.save(tmp_path, 2, [one])
    with pytest.raises(RowsNotExportedError, match=r"E529: .*the value 100000\.0 in column row of key {} is too "
                                                   "large".format(one.block.keys[7])):
        export_rows(prefix, "user", str(tmp_path / "large"), format="npy", dtype="float16")
    assert not (tmp_path / "large").exists()
    with pytest.raises(ArgumentError, match="writes no Parquet files with float16"):
        export_rows(prefix, "user", str(tmp_path / "large"), dtype="float16")


def test_the_command_prints_what_it_wrote(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30)])
    done = ascpipe("export", prefix, "--table", "user", "--to", tmp_path / "a", "--format", "npy", "--counts")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "npy  {}  30 rows of table user, 0.0 MiB, columns key, row, count, timestamp\n".format(
        tmp_path / "a")
    done = ascpipe("export", prefix, "--table", "user", "--to", tmp_path / "b", "--where", "count>=0", "--json")
    told = json.loads(done.stdout)
    written = sealed_json.decoded((tmp_path / "b" / "manifest.json").read_bytes())
    assert {**written, "directory": str(tmp_path / "b")} == {**told, "format": "ascpipe rows", "version": 1}
    assert [column["name"] for column in told["columns"]] == ["key", "row"]
    for arguments, code, text in ((["--to", tmp_path / "a"], 1, "E529: .* it exists"),
                                  (["--to", tmp_path / "c", "--where", "x"], 1, "E260: "),
                                  (["--to", tmp_path / "c", "--format", "csv"], 2, "is not one of"),
                                  ([], 2, "--to")):
        done = ascpipe("export", prefix, "--table", "user", *arguments)
        assert done.exit_code == code and done.stdout == ""
        assert re.search(text, done.stderr)


def test_missing_parents_of_the_directory_are_created(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30)])
    export_rows(prefix, "user", str(tmp_path / "new" / "parent" / "out"), format="npy")
    assert len(np.load(str(tmp_path / "new" / "parent" / "out" / "keys.npy"))) == 30


def test_nothing_is_left_where_an_export_fails(tmp_path, monkeypatch):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30)])
    before = sorted(os.listdir(str(tmp_path)))
    with pytest.raises(CheckpointMismatchError, match="E524: .*table 'item' is not in it; it has user"):
        export_rows(prefix, "item", str(tmp_path / "out"))
    (tmp_path / "file").touch()
    with pytest.raises(RowsNotExportedError, match=r"E529: .*not a directory \(.*/file\)"):
        export_rows(prefix, "user", str(tmp_path / "file" / "a" / "out"), format="npy")
    (tmp_path / "file").unlink()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(RowsNotExportedError, match="E529: .*it exists"):
        export_rows(prefix, "user", str(tmp_path / "link"), format="npy")
    (tmp_path / "link").unlink()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "sync_all", full)
    with pytest.raises(RowsNotExportedError, match="E529: .*No space left on device"):
        export_rows(prefix, "user", str(tmp_path / "out"), format="npy")
    file = tmp_path / "sparse-model.ckpt-1/user/embedding/slice.data"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(DamagedCheckpointError):
        export_rows(prefix, "user", str(tmp_path / "out"))
    assert sorted(os.listdir(str(tmp_path))) == before


@pytest.mark.parametrize("change", [
    {"files": {"../../etc/passwd": {"bytes": 1, "digest": ""}}}, {"rows": -1}, {"rows": True}, {"file_format": "csv"},
    {"columns": []}, {"columns": [{"name": "key", "width": 0, "dtype": "int64"}] * 2}, {"version": 2}, {"files": []},
    {"columns": [{"name": "key", "width": 0, "dtype": "int64"}, {"name": "row", "width": 0, "dtype": "float32"}]},
    {"columns": [{"name": "key", "width": 0, "dtype": "int64"}, {"name": "row", "width": 4, "dtype": "object"}]},
    {"columns": [{"name": "key", "width": 0, "dtype": "int64"}, {"name": "row", "width": 4, "dtype": "float32"},
                 {"name": "slot_../x", "width": 4, "dtype": "float32"}]},
])
def test_a_manifest_that_says_something_else_is_refused(tmp_path, change):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=3)])
    export_rows(prefix, "user", str(tmp_path / "out"), format="npy")
    content_of = sealed_json.decoded((tmp_path / "out" / "manifest.json").read_bytes())
    assert manifest.decoded(sealed_json.encoded(content_of)).rows == 3
    with pytest.raises((ValueError, TypeError)):
        manifest.decoded(sealed_json.encoded({**content_of, **change}))


def test_without_pyarrow_only_parquet_files_are_refused(tmp_path, monkeypatch):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=3)])
    export_rows(prefix, "user", str(tmp_path / "a"))
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("npy", "tsv"):
        export_rows(prefix, "user", str(tmp_path / name), format=name)
        assert imported(imports.Request(prefix, "user", str(tmp_path / name))).replaced == 3
    with pytest.raises(ParquetMissingError, match="E340: .* needs pyarrow"):
        export_rows(prefix, "user", str(tmp_path / "b"))
    with pytest.raises(ParquetMissingError, match="E340: .* needs pyarrow"):
        imported(imports.Request(prefix, "user", str(tmp_path / "a")))
    assert not (tmp_path / "b").exists()


def test_a_terminal_shows_a_bar(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30)])
    with checkpoint_rows.bar("export") as progress:
        exported(Request(prefix, "user", str(tmp_path / "a"), "npy"), progress)
    assert "30 of 30 rows" in sys.stderr.getvalue()


def test_a_checkpoint_of_rec_sdk_is_exported_if_it_may_be_read_unverified(tmp_path, monkeypatch):
    one = content(rows=30)
    prefix = checkpoints.save(tmp_path, 1, [one])
    for name in ("ASCPIPE", "MANIFEST.json", "PAIR.json"):
        (tmp_path / "sparse-model.ckpt-1" / name).unlink()
    with pytest.raises(UnverifiedCheckpointError):
        export_rows(prefix, "user", str(tmp_path / "a"), "npy")
    monkeypatch.setenv(ALLOW_UNVERIFIED, "1")
    export_rows(prefix, "user", str(tmp_path / "a"), "npy")
    wanted = {name: oracle(one)[name] for name in ("key", "row")}
    assert_same(columns_of(tmp_path / "a", {"key": 0, "row": 4}), wanted)


def test_an_export_verifies_the_files_that_it_reads(tmp_path):
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30), content("item")])
    folder = tmp_path / "sparse-model.ckpt-1"
    for name in ("user/LazyAdam_velocity", "item/embedding", "dense-part"):
        for file in (folder / name).glob("*"):
            file.write_bytes(b"x" * len(file.read_bytes()))
    assert export_rows(prefix, "user", str(tmp_path / "rows"), "npy", counts=True).rows == 30
    with pytest.raises(DamagedCheckpointError, match="E522: .*user/LazyAdam_velocity"):
        export_rows(prefix, "user", str(tmp_path / "slots"), "npy", slots=True)
    file = folder / "item/key/slice.data"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(DamagedCheckpointError, match="E522: .*item/key"):
        export_rows(prefix, "user", str(tmp_path / "keys"), "npy")


def test_npy_files_are_sorted_without_a_temporary_file(tmp_path, monkeypatch):
    def failing(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export, "temporary_rooms", failing)
    prefix = checkpoints.save(tmp_path, 1, [content(rows=30)])
    assert export_rows(prefix, "user", str(tmp_path / "a"), "npy").rows == 30
    with pytest.raises(RowsNotExportedError, match="E529: .*No space left on device"):
        export_rows(prefix, "user", str(tmp_path / "b"), "tsv")
