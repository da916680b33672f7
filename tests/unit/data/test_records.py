"""Records are read as they were written; damage is an error with its place; mutated files are never misread."""
import gzip
import random
import resource
import zlib

import pytest

from ascpipe.data.records import Place, RecordFile
from ascpipe.data.schema import FileSchema
from ascpipe.errors import DamagedRecordsError, DataChangedError, DataError, DataUnreadableError, IndexUnusableError
from tests.support import tfrecords

COMPRESSIONS = ["", "GZIP", "ZLIB"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_are_read_as_they_were_written(tmp_path, compression):
    records = [bytes([n % 256]) * (n * 37 % 3000) for n in range(300)]
    path = tfrecords.write(tmp_path / "data", records, compression)
    with RecordFile(path) as file:
        read = list(file)
        assert file.compression == compression
        assert file.read() is None
    assert [one.data for one in read] == records
    assert [one.number for one in read] == list(range(300))
    sizes = [len(one) + 16 for one in records]
    assert [one.offset for one in read] == [sum(sizes[:n]) for n in range(300)]


def test_a_record_at_a_place_is_read_and_then_the_next(tmp_path):
    records = [b"a" * n for n in range(100)]
    with RecordFile(tfrecords.write(tmp_path / "data", records)) as file:
        places = []
        place = file.skip()
        while place is not None:
            places.append(place)
            place = file.skip()
        for number in (99, 0, 57):
            assert file.read_at(places[number]).data == records[number]
        assert file.read().data == records[58]
        with pytest.raises(IndexUnusableError, match="E333: .*there is no record 5 of 999 bytes at byte 6000"):
            file.read_at(Place(5, 6000, 999))
        with pytest.raises(IndexUnusableError, match="E333"):
            file.read_at(Place(5, places[5].offset, places[5].size + 1))
        with pytest.raises(DamagedRecordsError, match="E330: .*record 5 at byte 1 is damaged: the checksum of its len"):
            file.read_at(Place(5, 1, 30))


def test_records_of_a_compressed_file_cannot_be_read_at_a_place(tmp_path):
    with RecordFile(tfrecords.write(tmp_path / "data", [b"x"], "GZIP")) as file:
        with pytest.raises(IndexUnusableError, match="can only be read in order. Decompress the file"):
            file.read_at(Place(0, 0, 17))


def test_a_damaged_record_is_an_error_with_place_and_values_and_can_be_skipped(tmp_path):
    content = bytearray(tfrecords.content([b"first", b"second", b"third"]))
    content[21 + 12] ^= 1
    (tmp_path / "data").write_bytes(bytes(content))
    with RecordFile(str(tmp_path / "data")) as file:
        assert file.read().data == b"first"
        for _ in range(2):
            with pytest.raises(DamagedRecordsError) as caught:
                file.read()
            assert str(caught.value).startswith(
                "E330: {}: record 1 at byte 21 is damaged: the checksum of its 6 bytes of data is wrong: "
                "expected ".format(tmp_path / "data"))
        assert file.skip() == Place(1, 21, 22)
        assert file.read().data == b"third"


def test_records_are_checked_in_steps(tmp_path):
    records = tfrecords.clicks(100)
    with RecordFile(tfrecords.write(tmp_path / "data", records)) as file:
        schema, total, steps = FileSchema(), 0, 0
        checked = file.check(schema, 1000)
        while not checked.is_end:
            total, steps = total + checked.records, steps + 1
            checked = file.check(schema, 1000)
        assert (total + checked.records, schema.records, file.not_example) == (100, 100, None)
        assert steps > 5 and checked.position == sum(len(one) + 16 for one in records)
    with RecordFile(tfrecords.write(tmp_path / "data", [*records[:3], b"text", b"text"])) as file:
        assert file.check(FileSchema(), 2 ** 40, limit=2)[::2] == (2, False)
        assert file.check(FileSchema(), 2 ** 40)[::2] == (3, True)
        assert file.not_example == 3


def test_a_file_that_grows_while_it_is_read_is_an_error(tmp_path):
    path = tmp_path / "data"
    with RecordFile(tfrecords.write(path, [b"x" * 1000] * 5000)) as file:
        file.read()
        with path.open("ab") as data:
            data.write(b"more")
        with pytest.raises(DataChangedError, match="E331: .* has changed while it was read: expected 5080000 bytes"):
            list(file)


def test_a_file_that_is_not_there_or_not_regular_is_refused(tmp_path):
    with pytest.raises(DataUnreadableError, match="E332: .*nothing cannot be read: No such file"):
        RecordFile(str(tmp_path / "nothing"))
    with pytest.raises(DataUnreadableError, match="is not a regular file"):
        RecordFile(str(tmp_path))


def test_a_compression_that_is_given_is_not_guessed(tmp_path):
    path = tfrecords.write(tmp_path / "data", [b"x"], "GZIP")
    with RecordFile(path, "") as file, pytest.raises(DamagedRecordsError, match="has another compression"):
        file.read()
    with RecordFile(path, "ZLIB") as file, pytest.raises(DamagedRecordsError, match="not a valid ZLIB stream"):
        file.read()


def mutated(content, random):
    """A changed copy of a file: flipped bits, cuts, insertions, and headers with wrong lengths and right checksums."""
    content = bytearray(content)
    for _ in range(random.randint(1, 3)):
        place = random.randrange(len(content) + 1)
        kind = random.randrange(5)
        if kind == 0:
            del content[place:]
        elif kind == 1:
            del content[place:place + random.randint(1, 20)]
        elif kind == 2:
            content[place:place] = bytes(random.getrandbits(8) for _ in range(random.randint(1, 20)))
        elif kind == 3:
            content[place:place + 12] = tfrecords.header(random.getrandbits(random.choice([5, 20, 30, 40, 64])))
        elif place < len(content):
            content[place] ^= 1 << random.randrange(8)
    return bytes(content)


def read_all(path):
    """Records of a file up to its end or its first error."""
    read = []
    try:
        with RecordFile(path) as file:
            read.extend(one.data for one in file)
            return read, True
    except DataError as error:
        assert str(path) in str(error)
        return read, False


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_mutated_files_are_never_misread(tmp_path, compression, seed):
    draw = random.Random(seed)
    records = [bytes(draw.getrandbits(8) for _ in range(draw.randrange(9, 90))) for _ in range(12)]
    whole = tfrecords.compressed(tfrecords.content(records), compression)
    path = str(tmp_path / "data")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    damaged = 0
    for _ in range(800):
        with open(path, "wb") as file:
            file.write(mutated(whole, draw))
        read, is_whole = read_all(path)
        damaged += not is_whole
        # A header is also a correct record of 8 bytes without its length.
        assert not [one for one in read if one not in records and len(one) not in (0, 8)]
    assert damaged > 600
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_mutated_content_in_a_whole_stream_is_never_misread(tmp_path, compression, seed):
    draw = random.Random(seed)
    records = [bytes(draw.getrandbits(8) for _ in range(draw.randrange(9, 90))) for _ in range(12)]
    for _ in range(200):
        content = mutated(tfrecords.content(records), draw)
        (tmp_path / "data").write_bytes(tfrecords.compressed(content, compression))
        read, _ = read_all(str(tmp_path / "data"))
        assert not [one for one in read if one not in records and len(one) not in (0, 8)]


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_a_stream_that_is_cut_off_anywhere_is_truncated(tmp_path, pack):
    whole = pack(tfrecords.content([b"first", b"second"]))
    for size in range(2, len(whole)):
        (tmp_path / "data").write_bytes(whole[:size])
        read, is_whole = read_all(str(tmp_path / "data"))
        assert not is_whole and read in ([], [b"first"], [b"first", b"second"])


def test_a_large_record_that_a_compressed_file_only_announces_takes_no_memory(tmp_path):
    (tmp_path / "data").write_bytes(gzip.compress(tfrecords.header(2 ** 30)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with RecordFile(str(tmp_path / "data")) as file, pytest.raises(DamagedRecordsError, match="found only 0 bytes"):
        file.read()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 << 10  # KiB
