"""Indexes are built beside the data or in the cache, and never used for other data."""
import os
import random

import pytest

from ascpipe.data import index
from ascpipe.data.records import RecordFile
from ascpipe.errors import DamagedRecordsError, DataUnreadableError, IndexNotWrittenError, IndexUnusableError
from tests.support import tfrecords


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCPIPE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    return tfrecords.write(folder / "a.tfrecord", [b"x" * (n % 50) for n in range(200)])


def test_an_index_has_the_place_of_each_record(data):
    positions = []
    built = index.indexed(data, positions.append)
    assert built.is_new and built.opened.records == 200
    assert built.opened.path == os.path.join(os.path.dirname(data), ".a.tfrecord.ascindex")
    assert positions == [os.path.getsize(data)]
    with built.opened as found, RecordFile(data) as file:
        places = found.find(0, 200)
        assert found.find(130) == [places[130]] and found.find(200, 0) == []
        assert [file.read_at(place).data for place in reversed(places)] == [b"x" * (n % 50) for n in range(199, -1, -1)]
        with pytest.raises(IndexUnusableError, match="has 200 records, and not the 2 records that begin with"):
            found.find(199, 2)
    again = index.indexed(data)
    assert not again.is_new
    again.opened.close()


def test_an_index_of_a_changed_file_is_built_again(data):
    index.indexed(data).opened.close()
    with open(data, "ab") as file:
        file.write(tfrecords.record(b"more"))
    assert index.existing(data) is None
    built = index.indexed(data)
    assert built.is_new and built.opened.records == 201
    built.opened.close()
    os.utime(data, ns=(5, 5))
    assert index.existing(data) is None


def test_a_damaged_index_is_built_again(data, seed):
    with index.indexed(data).opened as built:
        place = built.path
    with open(place, "rb") as file:
        whole = file.read()
    draw = random.Random(seed)
    for _ in range(300):
        content = bytearray(whole)
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        with open(place, "wb") as file:
            file.write(content[:draw.randrange(len(content))] if draw.random() < .3 else content)
        assert index.existing(data) is None
    built = index.indexed(data)
    assert built.is_new and built.opened.records == 200
    built.opened.close()


def test_where_the_folder_cannot_be_written_the_index_is_in_the_cache(data, cache, monkeypatch):
    monkeypatch.setattr(index, "beside", lambda path: "/proc/index")
    built = index.indexed(data)
    assert built.is_new and built.opened.path == index.in_cache(data)
    assert os.path.dirname(built.opened.path) == str(cache / "indexes")
    built.opened.close()
    again = index.indexed(data)
    assert not again.is_new
    again.opened.close()
    os.unlink(again.opened.path)
    (cache / "indexes").rmdir()
    (cache / "indexes").write_text("")
    with pytest.raises(IndexNotWrittenError, match="E335: the index .* The cache directory cannot be used either"):
        index.indexed(data)


def test_data_that_cannot_be_indexed_leaves_no_file(data, tmp_path):
    folder = os.path.dirname(data)
    with open(data, "r+b") as file:
        file.truncate(os.path.getsize(data) - 1)
    with pytest.raises(DamagedRecordsError, match="record 199 at byte"):
        index.indexed(data)
    with pytest.raises(DataUnreadableError, match="nothing cannot be read"):
        index.indexed(os.path.join(folder, "nothing"))
    assert sorted(os.listdir(folder)) == ["a.tfrecord"]


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_compressed_file_has_the_index_of_its_content(tmp_path, compression):
    records = [bytes(number % 7) for number in range(300)]
    found = []
    for name, kind in (("plain", ""), ("compressed", compression)):
        with index.indexed(tfrecords.write(tmp_path / name, records, kind)).opened as opened:
            found.append(opened.find(0, opened.records))
    assert found[0] == found[1]
    assert len(found[0]) == 300


def test_an_interrupt_leaves_no_file(data):
    def interrupt(_):
        raise KeyboardInterrupt

    step = index.STEP_BYTES
    try:
        index.STEP_BYTES = 100
        with pytest.raises(KeyboardInterrupt):
            index.indexed(data, interrupt)
    finally:
        index.STEP_BYTES = step
    assert os.listdir(os.path.dirname(data)) == ["a.tfrecord"]


def test_an_empty_file_has_an_index_without_records(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    built = index.indexed(str(tmp_path / "empty"))
    assert (built.opened.records, built.opened.find(0, 0)) == (0, [])
    built.opened.close()
