"""Damaged and hostile files with rows are coded errors, after which no checkpoint was written."""
import errno
import os
import shutil

import numpy as np
import pytest

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.errors import (
    CheckpointError,
    CheckpointMismatchError,
    DamagedCheckpointError,
    DamagedRowsError,
    NotSavedError,
    RowsNotImportedError,
    UnverifiedCheckpointError,
)
from ascpipe.checkpoint.reader import ALLOW_UNVERIFIED, open_checkpoint
from ascpipe.rows import imports, npy_files
from ascpipe.rows.imports import Request, imported
from tests.support import checkpoints
from tests.support.checkpoints import content, tree_of
from tests.unit.checkpoint.test_rows_out import FORMATS, export_rows

EMPTY = content("user", 0, 0)


def import_rows(into, source):
    return imported(Request(into, "user", str(source)))


@pytest.fixture
def into(tmp_path):
    return checkpoints.save(tmp_path / "model", 5, [EMPTY])


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    """folder with an export of each format."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(disk, "sync", os.fstat)
        prefix = checkpoints.save(folder, 1, [content(rows=40)])
        for name in FORMATS:
            export_rows(prefix, "user", str(folder / name), name, slots=True, counts=True)
    return folder


@pytest.fixture(params=FORMATS)
def export(request, tmp_path, exports):
    """A copy of an export that a test may change."""
    return tmp_path / shutil.copytree(str(exports / request.param), str(tmp_path / "rows"))


def files_of(export):
    return sorted(path for path in export.iterdir() if path.name != "manifest.json")


def assert_refused(into, source, error, match):
    before = tree_of(os.path.dirname(into))
    with pytest.raises(error, match=match) as caught:
        import_rows(into, source)
    assert tree_of(os.path.dirname(into)) == before
    return caught.value


def test_each_file_is_compared_with_the_manifest(into, export):
    for path in files_of(export):
        whole = path.read_bytes()
        for damaged in (whole[:-1], whole + b"x", bytes([whole[0] ^ 1]) + whole[1:], b""):
            path.write_bytes(damaged)
            error = assert_refused(into, export, DamagedRowsError, "E531: .* is damaged or cannot be read: its .* "
                                                                   "bytes differ from .* delete manifest.json")
            assert error.place == path.name
        path.unlink()
        assert_refused(into, export, DamagedRowsError, "E531: .*{}.*No such file".format(path.name))
        path.symlink_to("/dev/zero")
        assert_refused(into, export, DamagedRowsError, "E531: .*symbolic link")
        path.unlink()
        path.write_bytes(whole)
    assert import_rows(into, export).rows == 40


def test_each_byte_of_a_manifest_counts(into, export):
    path = export / "manifest.json"
    whole = path.read_bytes()
    for place in range(0, len(whole), 37):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 2]) + whole[place + 1:])
        assert_refused(into, export, DamagedRowsError, "E531: .*manifest.json is damaged")
    for text in (b"", b"{}", b"[" * 100000, b"[]", b"\xff", b"x" * (2 << 20)):
        path.write_bytes(text)
        assert_refused(into, export, DamagedRowsError, "E531: .*manifest.json is damaged")


def test_damage_that_no_manifest_reveals_is_a_coded_error_or_another_number(tmp_path, into, export):
    (export / "manifest.json").unlink()
    random = np.random.RandomState(3)
    codes = set()
    for path in files_of(export):
        whole = path.read_bytes()
        places = random.randint(0, len(whole), 12).tolist() + [0, 5, 8, len(whole) - 6, len(whole) - 1]
        for number, place in enumerate(places):
            changed = bytes([whole[place] ^ (1 << number % 8)])
            path.write_bytes(whole[:place] + changed + whole[place + 1:] if number % 3 else whole[:place])
            try:
                found = import_rows(into, export if path.suffix != ".tsv" else path)
            except CheckpointError as error:
                codes.add(error.code)
                assert error.code in ("E530", "E531")
            else:
                with open_checkpoint(found.checkpoint) as checkpoint:
                    assert checkpoint.tables["user"].rows == found.rows
        path.write_bytes(whole)
    assert codes


def test_a_name_in_a_footer_that_is_no_text_is_damage(tmp_path, into, exports):
    shutil.copytree(str(exports / "parquet"), str(tmp_path / "rows"))
    (tmp_path / "rows" / "manifest.json").unlink()
    file = tmp_path / "rows" / "rows.parquet"
    content_of = file.read_bytes()
    place = content_of.rindex(b"LazyAdam_velocity", 0, content_of.rindex(b"ARROW:schema"))  # a path of a row group
    file.write_bytes(content_of[:place] + b"\xe9" + content_of[place + 1:])
    assert_refused(into, tmp_path / "rows", DamagedRowsError, "E531: .*row group 0 of .*rows.parquet")


def test_a_footer_whose_row_groups_have_another_number_of_rows_is_damage(tmp_path, into, exports):
    shutil.copytree(str(exports / "parquet"), str(tmp_path / "rows"))
    (tmp_path / "rows" / "manifest.json").unlink()
    file = tmp_path / "rows" / "rows.parquet"
    number = b"\x16%c\x19"  # Thrift: the number of rows, before the list of row groups
    content_of = file.read_bytes()
    assert content_of.count(number % 80) == 1
    file.write_bytes(content_of.replace(number % 80, number % 82))
    assert_refused(into, tmp_path / "rows", DamagedRowsError,
                   "E531: .*rows.parquet.*the file has 41 rows, and its [0-9]+ row groups have 40 rows")


def header(text, version=b"\1\0"):
    return b"\x93NUMPY" + version + len(text).to_bytes(2 if version[0] == 1 else 4, "little") + text


@pytest.mark.parametrize("content_of", [
    b"", b"\x93NUMPY", header(b"{}"), header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (40, 4)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-40, 4)}"), header(b"(" * 60000),
    header(b"__import__('os').abort()"), header(b"{'descr': '|O', 'fortran_order': False, 'shape': (40, 4)}"),
    header(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (40, 4)}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (40, 'x')}"),
    header(b"{'descr': '<f4', 'fortran_order': False, 'shape': ()}"),
    b"\x93NUMPY\2\0\xff\xff\xff\xff", header(b"{}", b"\3\0"), b"\x80\4N."])
def test_no_header_of_an_npy_file_does_harm(tmp_path, into, exports, content_of):
    shutil.copytree(str(exports / "npy"), str(tmp_path / "rows"))
    (tmp_path / "rows" / "manifest.json").unlink()
    (tmp_path / "rows" / "rows.npy").write_bytes(content_of)
    assert_refused(into, tmp_path / "rows", (DamagedRowsError, RowsNotImportedError), "E53[01]: .*rows.npy")


def test_a_line_without_an_end_is_not_read_into_memory(tmp_path, into):
    (tmp_path / "a.tsv").write_bytes(b"1\t1 2 3 4\n2\t" + b"1" * 5000)
    assert_refused(into, tmp_path / "a.tsv", DamagedRowsError, "E531: .*line 2 of .*more than 384 bytes")


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_what_is_no_file_is_refused(tmp_path, into, name):
    os.mkfifo(str(tmp_path / name))
    assert_refused(into, tmp_path / name, DamagedRowsError, "E531: .*it is not a regular file")


def test_a_file_that_changes_while_it_is_read_is_refused(into, export, monkeypatch):
    (file, *_) = [path for path in files_of(export) if path.name.startswith("rows.")]
    written = imports.written

    def change(*arguments, **options):
        os.utime(str(file), (1, 1))
        return written(*arguments, **options)

    monkeypatch.setattr(imports, "written", change)
    assert_refused(into, export, DamagedRowsError, "E531: .*it changed while it was read")


def test_other_keys_in_the_second_pass_are_refused(tmp_path, into, exports, monkeypatch):
    keys = exports / "npy" / "keys.npy"
    folder = tmp_path / shutil.copytree(str(exports / "npy"), str(tmp_path / "rows"))
    read = npy_files.NpyRows.parts

    def parts(source, columns):
        yield from read(source, columns)
        np.save(str(folder / "keys.npy"), np.load(str(keys))[:30])

    monkeypatch.setattr(npy_files.NpyRows, "parts", parts)
    assert_refused(into, folder, DamagedRowsError, "E531: ")


def test_tables_and_checkpoints_that_are_not_there(tmp_path, into, exports, monkeypatch):
    with pytest.raises(CheckpointMismatchError, match="E524: .*table 'item' is not in it"):
        imported(Request(into, "item", str(exports / "npy")))
    other = checkpoints.save(tmp_path / "other", 1, [content("user", 0, 0, dim=6)])
    for name in FORMATS:
        error = assert_refused(other, exports / name, RowsNotImportedError, "E530: .*rows have 4 floats, but table "
                                                                            "'user' has 6")
        assert error.count == 40
    folder = tmp_path / "model" / "sparse-model.ckpt-5"
    for name in ("ASCPIPE", "MANIFEST.json", "PAIR.json"):
        (folder / name).unlink()
    monkeypatch.setenv(ALLOW_UNVERIFIED, "1")
    with pytest.raises(UnverifiedCheckpointError):
        import_rows(into, exports / "npy")


@pytest.mark.parametrize("call", ["copy_file", "write_all", "sync_all", "rename"])
def test_a_full_disk_leaves_nothing(into, exports, monkeypatch, call):
    with monkeypatch.context() as patched:
        patched.setattr(disk, "free_bytes", lambda fd: 100)
        assert_refused(into, exports / "npy", NotSavedError, "E510: .*the disk has 100 bytes left")

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(disk, call, full)
    assert_refused(into, exports / "npy", NotSavedError, "E510: .*No space left on device")


def test_variables_that_change_after_they_were_verified_are_damage(into, exports, monkeypatch):
    copied = disk.copy_file

    def copy(fd, name, new_fd, new_name):
        with open(os.path.dirname(into) + "/sparse-model.ckpt-5/dense-part/" + name, "a") as file:
            file.write("x")
        copied(fd, name, new_fd, new_name)

    monkeypatch.setattr(disk, "copy_file", copy)
    with pytest.raises(DamagedCheckpointError, match="E522: .*dense-part/model.ckpt-5.* differs from the saved bytes"):
        import_rows(into, exports / "npy")
