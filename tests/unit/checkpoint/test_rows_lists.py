"""Lists in Parquet files: their lengths are counted before pyarrow decodes a batch, so that memory is bounded."""
import os

import numpy as np
import pytest

from ascpipe.checkpoint.errors import DamagedRowsError, RowsNotImportedError
from ascpipe.data.parquet import failures
from ascpipe.rows import parquet_lists
from ascpipe.rows.imports import Request, imported
from ascpipe.rows.parquet_lists import values_of_largest_batch
from ascpipe.rows.parquet_pages import RUNS, Chunk, Page, checked_pages
from tests.support import checkpoints, parquets
from tests.support.checkpoints import content, tree_of

pa = parquets.pyarrow
COMPRESSIONS = ("none", "snappy", "gzip", "zstd", "brotli", "lz4")


def random_lists(dice, count):
    """Lists of different lengths; some are empty or null, and many have the same length."""
    lengths = np.where(dice.rand(count) < 0.5, dice.randint(-1, 40, count), dice.choice([0, 1, 7, 16]))
    return [None if length < 0 else [0.5] * length for length in lengths.tolist()]


def counted(path, batch_lists):
    """The result for the only column of a file with one row group."""
    file = parquets.parquet.ParquetFile(path)
    column = file.metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    with open(path, "rb") as opened:
        def read(first, count):
            return os.pread(opened.fileno(), count, first)

        pages = checked_pages(read, Chunk(start, column.num_values))
        return values_of_largest_batch(read, pages, column.compression, batch_lists), len(pages)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_largest_batch_has_the_values_of_its_lists(tmp_path, seed, compression, version):
    lists = random_lists(np.random.RandomState(seed), 3000)
    path = parquets.write(tmp_path / "a.parquet", {"row": pa.array(lists, pa.list_(pa.float32()))},
                          compression=compression, data_page_version=version, data_page_size=300, write_batch_size=64)
    values = [max(1, len(one or ())) for one in lists]
    for batch_lists in (1, 2, 7, 1000, 2999, 5000):
        most, pages = counted(path, batch_lists)
        assert most == max(sum(values[start:start + batch_lists]) for start in range(0, len(values), batch_lists))
        assert pages > 10


def test_one_list_with_the_values_of_many_rows_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    count, dim = 300000, 4
    into = checkpoints.save(tmp_path / "model", 5, [content("user", 0, 0, dim=dim, slots=())])
    offsets = np.r_[0, np.full(count, count * (dim - 1))]
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(np.zeros(count * (dim - 1), np.float32)))
    source = parquets.write(tmp_path / "a.parquet", {"key": np.arange(count), "row": lists})
    assert parquets.parquet.ParquetFile(source).metadata.row_group(0).column(1).num_values < count * dim
    decoded = []
    monkeypatch.setattr(parquets.parquet.ParquetFile, "iter_batches", _noting(decoded))
    before = tree_of(tmp_path / "model")
    with pytest.raises(RowsNotImportedError, match=r"E530: .*row group 0 of .*: column 'row.*' has 9\d{5} values in "
                                                   r"\d{5,6} rows, expected at most"):
        imported(Request(into, "user", source))
    assert set(decoded) == {("key",)}
    assert tree_of(tmp_path / "model") == before


def _noting(decoded):
    plain = parquets.parquet.ParquetFile.iter_batches

    def iter_batches(self, *args, columns, **given):
        decoded.append(tuple(columns))
        return plain(self, *args, columns=columns, **given)

    return iter_batches


@pytest.mark.parametrize("levels", [b"", b"\x06", b"\0\0", b"\1\0", b"\x08\0", b"\3", b"\xff" * 9, b"\x80" * 9])
def test_damaged_levels_are_found(levels):
    whole = levels + b"x"
    page = Page(0, len(whole), len(whole), 9, len(levels), RUNS)
    with pytest.raises(ValueError, match="levels of a page are damaged"):
        values_of_largest_batch(lambda start, count: whole[start:start + count], [page], "UNCOMPRESSED", 3)


@pytest.mark.parametrize("page, reason", [
    (Page(0, 9, 9, 9, 9, RUNS), "ends too early"), (Page(0, 3, 3, 9, None, RUNS), "damaged|too early"),
    (Page(0, 6, 6, 9, None, RUNS), "damaged"), (Page(0, 6, 6, 9, None, 4), "unsupported encoding 4")])
def test_a_page_whose_levels_cannot_be_read_is_damaged(page, reason):
    whole = (50).to_bytes(4, "little") + b"\6\0"
    with pytest.raises(ValueError, match=reason):
        values_of_largest_batch(lambda start, count: whole[start:start + count], [page], "UNCOMPRESSED", 3)


@pytest.mark.parametrize("is_of_hadoop", [True, False])
def test_both_formats_of_lz4_are_decompressed(is_of_hadoop):
    content_of = (2).to_bytes(4, "little") + b"\x12\0"  # nine lists of one value
    packed = pa.compress(content_of, "lz4_raw", asbytes=True)
    if is_of_hadoop:
        packed = len(content_of).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed
    page = Page(0, len(packed), len(content_of), 9, None, RUNS)
    assert values_of_largest_batch(lambda start, count: packed[start:start + count], [page], "LZ4", 4) == 4


def test_a_page_that_cannot_be_decompressed_is_a_damaged_file(tmp_path):
    rows = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(400, dtype=np.float32)), 4)
    source = tmp_path / "a.parquet"
    parquets.write(source, {"key": np.arange(100), "row": rows}, use_dictionary=False, compression="zstd")
    start = parquets.parquet.ParquetFile(str(source)).metadata.row_group(0).column(1).data_page_offset
    whole = bytearray(source.read_bytes())
    place = whole.index(b"\x28\xb5\x2f\xfd", start)  # magic number of zstd
    whole[place] ^= 0xFF
    source.write_bytes(whole)
    into = checkpoints.save(tmp_path / "model", 5, [content("user", 0, 0, dim=4)])
    with pytest.raises(DamagedRowsError, match="E531: .*row group 0 of"):
        imported(Request(into, "user", str(source)))


def test_an_unknown_compression_is_an_error_that_an_import_converts():
    with pytest.raises(ValueError, match="compression: 'lzo'") as caught:
        parquet_lists._decompressed(b"abc", 3, "LZO")
    assert isinstance(caught.value, failures())
