"""Pages of Parquet files: sizes and numbers of values are checked before pyarrow decompresses a page."""
import re
import subprocess
import sys

import numpy as np
import pytest

from ascpipe.checkpoint.errors import DamagedRowsError, RowsNotImportedError
from ascpipe.rows import parquet_pages
from ascpipe.rows.imports import Request, imported
from ascpipe.rows.parquet_pages import Chunk, LargePageError, checked_pages
from tests.support import checkpoints, parquets, tree
from tests.support.checkpoints import content, tree_of

pa = parquets.pyarrow
EMPTY = content("user", 0, 0)
KEYS = np.arange(3000, dtype=np.int64) * 7
VALUES = np.tile(np.arange(4, dtype=np.float32), len(KEYS))
ROWS = pa.FixedSizeListArray.from_arrays(pa.array(VALUES), 4)

_IMPORT = """
import resource, sys
import numpy, pyarrow.parquet
from ascpipe.checkpoint.errors import CheckpointError
from ascpipe.rows.imports import Request, imported
(used,) = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize")]
resource.setrlimit(resource.RLIMIT_AS, (used + (300 << 20),) * 2)
try:
    imported(Request(sys.argv[1], "user", sys.argv[2]))
except CheckpointError as error:
    print(error)
"""


def import_rows(folder, source):
    return imported(Request(checkpoints.save(folder / "model", 5, [EMPTY]), "user", source))


def number(value):
    """Zigzag and variable-length encoding of a number."""
    value = value << 1 ^ value >> 63
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def page(values, size=8, packed=8, kind=0, content_of=None):
    """Page with a header in Thrift's compact protocol."""
    of_kind = {0: b"\x2c", 2: b"\x4c", 3: b"\x5c"}[kind]
    encodings = {0: b"\x15\0\x15\6\x15\6", 2: b"", 3: b"\x15\0" * 5}[kind]
    header = (b"\x15" + number(kind) + b"\x15" + number(size) + b"\x15" + number(packed) + of_kind + b"\x15"
              + number(values) + encodings + b"\0\0")
    return header + (b"x" * packed if content_of is None else content_of)


def check(pages, values):
    whole = b"abcd" + b"".join(pages)
    return checked_pages(lambda start, count: whole[start:start + count], Chunk(4, values))


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_of_each_kind_are_imported(tmp_path, compression, version, dictionary):
    source = parquets.write(tmp_path / "a.parquet", {"key": KEYS, "row": ROWS}, 1000, compression=compression,
                            data_page_version=version, use_dictionary=dictionary, data_page_size=500)
    assert import_rows(tmp_path, source).rows == len(KEYS)


def test_the_pages_of_a_chunk_are_followed_until_all_its_values_were_found():
    check([page(5, kind=2, size=20), page(3), page(4, kind=3), b"another column"], 7)
    check([], 0)


@pytest.mark.parametrize("pages, values", [
    ([page(3), page(5)], 7), ([page(3)], 7), ([page(-1)], 7), ([page(6, kind=2), page(7)], 7), ([b""], 7), ([b"\0"], 7),
    ([page(7)[:9]], 7), ([b"\xff" * 100], 7), ([b"\x1c" * 100], 7), ([b"\x18" + number(1 << 40) + page(7)], 7),
    ([page(7, size=-1)], 7), ([page(7, packed=-3, content_of=b"")], 7), ([b"\x19\x15" * 50], 7),
])
def test_headers_that_are_damaged_or_disagree_with_the_footer_are_found(pages, values):
    with pytest.raises(ValueError, match="header of a page|its pages have|a number is"):
        check(pages, values)


@pytest.mark.parametrize("sizes", [{"size": (1 << 28) + 1}, {"packed": (1 << 28) + 1, "content_of": b""}])
def test_a_large_page_is_refused_before_its_content_is_read(sizes):
    with pytest.raises(LargePageError, match="the maximum is 268435456. Write the file with smaller pages"):
        check([page(1), page(6, **sizes)], 7)


def test_a_file_with_a_large_page_is_refused(tmp_path, monkeypatch):
    source = parquets.write(tmp_path / "a.parquet", {"key": KEYS, "row": ROWS}, use_dictionary=False,
                            data_page_size=1 << 20)
    monkeypatch.setattr(parquet_pages, "MAX_PAGE_BYTES", len(VALUES) * 4 - 1)
    into = checkpoints.save(tmp_path / "model", 5, [EMPTY])
    before = tree_of(tmp_path / "model")
    with pytest.raises(RowsNotImportedError, match="E530: .*row group 0 of .*: column 'row.*': a page has .* smaller"):
        imported(Request(into, "user", source))
    assert tree_of(tmp_path / "model") == before


@pytest.mark.parametrize("column", [0, 1])
@pytest.mark.parametrize("change", [-2, 2])
def test_a_page_with_another_number_of_values_than_the_footer_is_damage(tmp_path, column, change):
    source = tmp_path / "a.parquet"
    rows = pa.FixedSizeListArray.from_arrays(ROWS[:5].flatten(), 1)
    parquets.write(source, {"key": KEYS[:20], "row": rows}, use_dictionary=False)
    start = parquets.parquet.ParquetFile(str(source)).metadata.row_group(0).column(column).data_page_offset
    whole = bytearray(source.read_bytes())
    place = whole.index(b"\x2c\x15" + number(20), start) + 2
    whole[place:place + 1] = number(20 + change)
    source.write_bytes(whole)
    reason = "E531: .*row group 0 .*its pages have 22 values, but" if change > 0 else "E531: .*group 0"
    with pytest.raises(DamagedRowsError, match=reason):
        imported(Request(checkpoints.save(tmp_path / "model", 5, [content("user", 0, 0, dim=1)]), "user", str(source)))


@pytest.mark.long
def test_a_page_that_decompresses_to_more_than_the_memory_is_a_coded_error(tmp_path):
    rows = (1 << 18) + 8  # of 1 KiB
    floats = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(256 * rows, np.float32)), 256)
    source = parquets.write(tmp_path / "a.parquet", {"key": np.arange(rows), "row": floats}, use_dictionary=False,
                            compression="zstd", data_page_size=1 << 30, write_batch_size=1 << 30)
    into = checkpoints.save(tmp_path / "model", 5, [content("user", 0, 0, dim=256, slots=())])
    done = subprocess.run([sys.executable, "-c", _IMPORT, into, source], cwd=str(tree.ROOT), capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert re.search("E530: .*column 'row.*': a page has .* bytes when it is decompressed", done.stdout), done.stdout
