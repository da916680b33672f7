"""Damaged and changed Parquet files: an error that names the file. Never a crash or a hang."""
import io
import os
import random
import re

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.data import parquet
from ascpipe.errors import DamagedRecordsError
from tests.support import parquets
from tests.tf import test_read_damage
from tests.tf.test_read_damage import BATCH, is_part_of, require_named

v1 = tf.compat.v1
pytestmark = pytest.mark.timeout_s(240)
COUNT = 40
SPECS = {"user": tf.io.FixedLenFeature([], tf.int64), "tags": tf.io.VarLenFeature(tf.int64),
         "query": tf.io.FixedLenFeature([], tf.string), "dense": tf.io.FixedLenFeature([3], tf.float32),
         "place": tf.io.VarLenFeature(tf.string)}


def content(rows=15, **options):
    buffer = io.BytesIO()
    parquets.parquet.write_table(parquets.pyarrow.table(parquets.clicks(COUNT)), buffer, row_group_size=rows,
                                         **options)
    return buffer.getvalue()


def users_of(batch):
    assert batch["tags"].dense_shape[0] == len(batch["dense"]) == len(batch["user"])
    return [user // 7 for user in batch["user"].tolist()]


def read(path, after_first=None, **given):
    return test_read_damage.read(path, after_first, SPECS, users_of, format="parquet", **given)


def mutated(draw, good):
    """Content of a file with one to three changes, half of them in the footer."""
    changed = bytearray(good)
    footer = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for _ in range(draw.choice([1, 1, 2, 3])):
        at = draw.randrange(footer, len(good)) if draw.random() < .5 else draw.randrange(len(good))
        kind = draw.choice(["bit", "bit", "bit", "byte", "cut", "zeros", "insert", "remove"])
        if kind == "bit" and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif kind == "byte" and at < len(changed):
            changed[at] = draw.randrange(256)
        elif kind == "cut":
            del changed[at:]
        elif kind == "zeros":
            changed[at:at + 20] = bytes(len(changed[at:at + 20]))
        elif kind == "insert":
            changed[at:at] = bytes([draw.randrange(256)])
        else:
            del changed[at:at + draw.randrange(1, 40)]
    return bytes(changed)


@pytest.mark.parametrize("mutations", [100, pytest.param(10000, marks=[pytest.mark.long, pytest.mark.timeout_s(2400)])])
def test_mutated_files_are_errors_and_never_a_crash(tmp_path, seed, mutations):
    draw = random.Random(seed)
    goods = [content(compression=compression, use_dictionary=has_dictionary, data_page_version=version)
             for compression in ("none", "snappy", "zstd") for has_dictionary in (True, False)
             for version in ("1.0", "2.0")]
    outcomes = {"refused": 0, "errors": 0, "read": 0}
    for number in range(mutations):
        path = tmp_path / "{}.parquet".format(number)
        good = draw.choice(goods)
        changed = mutated(draw, good)
        at_once = draw.random() < .6  # otherwise, pages change after the footer was read
        path.write_bytes(changed if at_once else good)
        stat = os.stat(str(path))

        def change(path=path, changed=changed, stat=stat):
            path.write_bytes(changed)
            os.utime(str(path), ns=(stat.st_atime_ns, stat.st_mtime_ns))

        found = read(path, None if at_once else change, readers=1 + number % 2,
                     on_bad_record="skip" if draw.random() < .3 else "error")
        if found.refused is not None:
            outcomes["refused"] += 1
            assert re.match("E(265|33[0-2]): ", found.refused) and str(path) in found.refused, found.refused
        else:
            for text in found.errors:
                assert str(path) in text, text
                assert re.match(r"(\[_Derived_\])?E33[01247]: ", text), text
            outcomes["errors" if found.errors else "read"] += 1
        path.unlink()
    assert min(outcomes.values()) > mutations // 20, outcomes


def test_indices_beyond_a_damaged_dictionary_are_errors(tmp_path):
    """pyarrow decodes them without a check, and C++ would read memory of others."""
    buffer = io.BytesIO()
    column = parquets.pyarrow.array([str(number % 5) for number in range(COUNT)]).dictionary_encode()
    parquets.parquet.write_table(parquets.pyarrow.table({"place": column}), buffer, compression="none")
    path = tmp_path / "a.parquet"
    reasons = []
    for at in range(4, 40):  # the header of the dictionary, and its values
        changed = bytearray(buffer.getvalue())
        changed[at] ^= 2
        path.write_bytes(bytes(changed))
        stat = os.stat(str(path))
        try:
            group = parquet.RowGroup(str(path), stat.st_size, stat.st_mtime_ns, 0)
            parquet.read(group, ["place"]).validate(full=True)
        except DamagedRecordsError as error:
            reasons.append(str(error))
    assert any("out of bounds" in reason for reason in reasons)
    assert all(reason.startswith("E330: Row group 0 of {} cannot be decoded".format(path)) for reason in reasons)


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"PAR1" * 3, b"PAR1" + b"\xff" * 8 + b"\xff\xff\xff\x7fPAR1",
                                    b"PAR1\0\0\0\0PAR1", b"not a Parquet file"])
def test_files_without_a_footer_are_named(tmp_path, damage):
    (tmp_path / "a.parquet").write_bytes(damage)
    assert re.match("E330: The footer of .*a.parquet cannot be decoded: ", read(tmp_path / "a.parquet").refused)


@pytest.mark.parametrize("rows", [0, 39, 41])
def test_a_footer_whose_row_groups_have_another_number_of_rows_is_damaged(tmp_path, rows):
    number = b"\x16%c\x19"  # Thrift: the number of rows, before the list of row groups
    good = content()
    assert good.count(number % (2 * COUNT)) == 1
    (tmp_path / "a.parquet").write_bytes(good.replace(number % (2 * COUNT), number % (2 * rows)))
    assert re.match("E330: The footer of .*a.parquet cannot be decoded: the file has {} rows, and its 3 row groups "
                    "have 40 rows".format(rows), read(tmp_path / "a.parquet").refused)


def damaged(tmp_path):
    """A file whose second row group has a damaged page."""
    path = tmp_path / "a.parquet"
    changed = bytearray(content(compression="zstd"))
    place = parquets.parquet.read_metadata(io.BytesIO(changed)).row_group(1).column(0).dictionary_page_offset
    changed[place:place + 30] = b"\xff" * 30
    path.write_bytes(bytes(changed))
    return path


@pytest.mark.parametrize("skip", ["error", "skip"])
def test_a_damaged_row_group_is_an_error_of_its_batches(tmp_path, skip):
    path = damaged(tmp_path)
    found = read(path, on_bad_record=skip)
    assert found.users == [*range(8), *range(32, 40)]
    assert len(found.errors) == 3
    for text in found.errors:
        assert re.match("E330: Row group 1 of {} cannot be decoded: ".format(re.escape(str(path))), text)


@pytest.mark.parametrize("how", ["replaced", "grown", "truncated", "deleted", "touched"])
def test_files_that_change_while_they_are_read(tmp_path, how):
    path = tmp_path / "a.parquet"
    path.write_bytes(content(5))

    def change():
        if how == "replaced":
            (tmp_path / "other").write_bytes(content(5, compression="none"))
            (tmp_path / "other").replace(path)
        elif how == "grown":
            path.write_bytes(content(5) + b"x")
        elif how == "truncated":
            os.truncate(str(path), 100)
        elif how == "deleted":
            path.unlink()
        else:
            os.utime(str(path), ns=(1, 1))

    found = read(path, change)
    require_named(found.errors, path)
    for text in found.errors:
        assert re.match("E332: .* cannot be read: No such file" if how == "deleted" else "E331: .* has changed", text)
    assert is_part_of(found.users, range(COUNT))
    assert len(found.users) + BATCH * len(found.errors) == COUNT
    assert found.errors


def test_a_file_that_changes_before_the_session_is_an_error(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(content())
    with tf.Graph().as_default(), v1.Session() as session:
        following = v1.data.make_one_shot_iterator(asc.data.read(str(path), SPECS, BATCH)).get_next()
        path.write_bytes(content(compression="none"))
        with pytest.raises(tf.errors.FailedPreconditionError, match="E331: .*a.parquet has changed while it was read"):
            session.run(following)


def test_other_files_cannot_be_read(tmp_path):
    os.mkfifo(str(tmp_path / "a.parquet"))
    assert re.match("E332: .*a.parquet is not a regular file", read(tmp_path / "a.parquet").refused)
