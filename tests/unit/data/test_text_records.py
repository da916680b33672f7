"""Records of text files equal the records of the twin in plain Python; damage is an error with its place."""
import resource

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ascpipe.data import formats, index
from ascpipe.data.records import Place, RecordFile
from ascpipe.errors import DamagedRecordsError, DataUnreadableError, IndexUnusableError
from tests.reference import text_records
from tests.support import texts, tfrecords

CSV = formats.text()
COMPRESSIONS = ["", "GZIP", "ZLIB"]


def read_all(path, compression=None, record_format=CSV):
    """Return places and data of all records, and the error that ended the file, or None."""
    read = []
    try:
        with RecordFile(str(path), compression, record_format) as file:
            read.extend((one.offset, one.data) for one in file)
        return read, None
    except DamagedRecordsError as error:
        return read, str(error)


def expected(content, delimiter=b",", use_quotes=True, header=False):
    records, is_open = text_records.split(content, delimiter, use_quotes)
    return [(offset, data) for offset, _, data in records[int(header):]], is_open


@given(st.lists(st.sampled_from([b'"', b'"', b",", b"\n", b"\r", b"\r\n", b"a", b"\xff"])).map(b"".join),
       st.sampled_from([b",", b"\t"]), st.booleans(), st.booleans())
@example(b'"a"b\nc"\nd\n', b",", True, False)
@example(b"a\rb\r\nc\n\nd", b",", True, False)
def test_records_are_those_of_the_twin(tmp_path_factory, content, delimiter, use_quotes, header):
    path = tmp_path_factory.getbasetemp() / "text"
    path.write_bytes(content)
    record_format = formats.text(delimiter.decode(), use_quotes, header)
    records, is_open = expected(content, delimiter, use_quotes, header)
    if is_open and not text_records.split(content, delimiter, use_quotes)[0] and header:
        with pytest.raises(DamagedRecordsError, match="record 0 at byte 0 is damaged: the quote"):
            RecordFile(str(path), None, record_format)
        return
    read, error = read_all(path, None, record_format)
    assert read == records
    assert (error is not None) == is_open


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_that_cross_the_buffer_are_those_of_the_twin(tmp_path, compression, seed):
    draw = texts.seeded(seed)
    long = [[b"x" * draw.randrange(70000), b'"\n' * draw.randrange(40000)] for _ in range(60)]
    content = texts.content(long, draw, line_end=b"\r\n")
    (tmp_path / "data").write_bytes(tfrecords.compressed(content, compression))
    assert read_all(tmp_path / "data") == (expected(content)[0], None)
    assert len(content) > 3 << 20


@pytest.mark.parametrize("files", [600, pytest.param(5000, marks=pytest.mark.long)])
def test_mutated_files_are_those_of_the_twin(tmp_path, seed, files):
    draw = texts.seeded(seed)
    path = tmp_path / "data"
    refused = 0
    for number in range(files):
        whole = texts.content(texts.rows(draw, 8, 4), draw, line_end=draw.choice([b"\n", b"\r\n"]))
        content = texts.soup(draw, 60) if number % 5 == 0 else texts.mutated(whole, draw)
        compression = COMPRESSIONS[number % 3]
        path.write_bytes(tfrecords.compressed(content, compression))
        read, error = read_all(path, compression)
        records, is_open = expected(content)
        assert (read, error is not None) == (records, is_open), content
        refused += is_open
    assert files // 25 < refused < files - files // 25


@pytest.mark.parametrize("changes", [80, pytest.param(800, marks=pytest.mark.long)])
@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_damaged_stream_is_an_error_or_the_beginning_of_the_records(tmp_path, compression, changes, seed):
    draw = texts.seeded(seed)
    content = texts.content(texts.rows(draw, 100, 4), draw)
    whole = tfrecords.compressed(content, compression)
    records = expected(content)[0]
    for _ in range(changes):
        damaged = bytearray(whole)
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        (tmp_path / "data").write_bytes(bytes(damaged[:draw.choice([len(damaged), draw.randrange(len(damaged))])]))
        read, error = read_all(tmp_path / "data", compression)
        assert error is not None or read in (records, [])


def test_a_text_that_begins_like_a_zlib_stream_is_a_text(tmp_path):
    for text in (b"80,1\n80,2\n", b"x^2,1\n", b"x\x01", b"80"):
        (tmp_path / "data").write_bytes(text)
        with RecordFile(str(tmp_path / "data"), None, CSV) as file:
            assert file.compression == ""
            assert file.read().data == text.partition(b"\n")[0]


def test_an_open_quote_is_an_error_with_its_place(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b'a,b\nc,"d\ne\n')
    with RecordFile(str(path), None, CSV) as file:
        assert file.read().data == b"a,b"
        for _ in range(2):
            with pytest.raises(DamagedRecordsError) as caught:
                file.read()
            assert str(caught.value).startswith(
                "E330: {}: record 1 at byte 4 is damaged: the quote at byte 6 begins a field".format(path))
        with pytest.raises(DamagedRecordsError):
            file.skip()
    assert [data for _, data in read_all(path, None, formats.text(use_quote_delim=False))[0]] == [b"a,b", b'c,"d', b"e"]


@pytest.mark.parametrize("compression", ["", "GZIP"])
def test_a_record_has_at_most_64_mib(tmp_path, compression):
    path = tmp_path / "data"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for content, is_whole in ((b"a\n" + b"x" * ((1 << 26) - 1) + b"\n", True),
                              (b"a\n" + b"x" * (1 << 26) + b"\n", False), (b'a\n"' + b"x" * (1 << 27), False)):
        path.write_bytes(tfrecords.compressed(content, compression))
        del content
        with RecordFile(str(path), None, CSV) as file:
            assert file.skip() == Place(0, 0, 2)
            if is_whole:
                assert file.skip().size == 1 << 26
            else:
                with pytest.raises(DamagedRecordsError, match="E330: .*record 1 at byte 2.* more than 67108864 bytes"):
                    file.skip()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600 << 10  # KiB, most of it for the test


def test_an_index_finds_all_records_of_a_text(tmp_path, seed):
    draw = texts.seeded(seed)
    content = texts.content(texts.rows(draw, 700, 3), draw)
    path = str(tmp_path / "data")
    (tmp_path / "data").write_bytes(content)
    for header in (False, True):
        record_format = formats.text(header=header)
        assert index.existing(path, record_format) is None
        built = index.indexed(path, None, record_format)
        records = expected(content, header=header)[0]
        with built.opened as opened, RecordFile(path, None, record_format) as file:
            assert (built.is_new, opened.records) == (True, len(records))
            for number in draw.sample(range(len(records)), 200):
                place, = opened.find(number)
                assert (place.offset, file.read_at(place).data) == records[number]
            assert file.read_at(opened.find(5)[0]).number == 5
            assert file.read().data == records[6][1]
        again = index.indexed(path, None, record_format)
        again.opened.close()
        assert not again.is_new


def test_an_index_of_another_format_is_refused(tmp_path):
    (tmp_path / "data").write_bytes(b"a,b\nc,d\n")
    path = str(tmp_path / "data")
    data = (tmp_path / "data").stat()
    with index.indexed(path, None, CSV).opened as built:
        for other in (formats.text("\t"), formats.text(use_quote_delim=False), formats.text(header=True),
                      formats.TFRECORD):
            with pytest.raises(IndexUnusableError, match=r"it was built for the format text \(delimiter \",\", quotes"):
                index.RecordIndex(built.path, data, other)
    tfrecords.write(tmp_path / "data", [b"x"])
    index.indexed(path).opened.close()
    with pytest.raises(IndexUnusableError, match="it was built for the format TFRecord, and the file is read as text"):
        index.RecordIndex(index.beside(path), (tmp_path / "data").stat(), CSV)


def test_a_place_of_other_data_is_refused(tmp_path):
    (tmp_path / "data").write_bytes(b'a,b\nc,"d\ne"\nf')
    with RecordFile(str(tmp_path / "data"), None, CSV) as file:
        assert file.read_at(Place(1, 4, 8)).data == b'c,"d\ne"'
        assert file.read_at(Place(2, 12, 1)).data == b"f"
        for place in (Place(0, 0, 3), Place(0, 0, 5), Place(1, 4, 5), Place(0, 0, 12)):
            with pytest.raises(IndexUnusableError, match="does not end after {} bytes as in the".format(place.size)):
                file.read_at(place)
        for place in (Place(0, 0, 0), Place(0, 0, 99), Place(0, -1, 3), Place(0, 13, 1)):
            with pytest.raises(IndexUnusableError, match="there is no record"):
                file.read_at(place)


def test_a_compressed_text_has_the_index_of_its_content(tmp_path):
    (tmp_path / "data").write_bytes(tfrecords.compressed(b"a\nbc\n", "GZIP"))
    with index.indexed(str(tmp_path / "data"), None, CSV).opened as opened:
        assert opened.find(0, 2) == [Place(0, 0, 2), Place(1, 2, 3)]


def test_an_empty_file_may_lack_its_header(tmp_path):
    (tmp_path / "data").write_bytes(b"")
    assert read_all(tmp_path / "data", None, formats.text(header=True)) == ([], None)


@pytest.mark.parametrize("delimiter", ['"', "\n", "\r"])
def test_a_delimiter_that_is_a_quote_or_a_line_end_is_refused(tmp_path, delimiter):
    (tmp_path / "data").write_bytes(b"a")
    with pytest.raises(DataUnreadableError, match="no format of records .* delimiter {}.".format(ord(delimiter))):
        RecordFile(str(tmp_path / "data"), None, formats.text(delimiter))
