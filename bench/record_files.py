"""Files of records: TFRecord files of tf.Examples, text and Parquet files. They are written without TensorFlow."""
import os
import struct
from operator import itemgetter
from typing import IO, Any, Dict, Iterator, NamedTuple, Sequence

import numpy as np

_CHUNK = 4096  # records that are prepared together
_ORDERS = 1024  # different orders of the features; each record has one of them
_FLOAT_LIST = 0x12  # fields of a tf.train.Feature: number and wire type
_INT64_LIST = 0x1a
_ONLY_FIELD = 0x0a  # a field with number 1 that has a length
_VALUE = 0x12  # value of an entry of a map
_POLYNOMIAL = 0x82F63B78  # CRC-32C, reversed
_MASK = 0xA282EAD8  # of CRCs in TFRecord files
_WORD = 2 ** 32 - 1


class Column(NamedTuple):
    """Feature of all records.

    Attributes:
        field: field of the tf.train.Feature that contains the values.
        payload: packed values of all records, one record after the other.
        ends: offset in ``payload`` of the end of each record, int64[records].
    """

    field: int
    payload: bytes
    ends: np.ndarray


def integers(values: np.ndarray, counts: np.ndarray) -> Column:
    """Return a column of int64 values that are not negative: int64[sum of counts]. ``counts`` has one entry for each
    record.
    """
    bits = 7 * np.arange(1 + max(0, int(values.max()).bit_length() - 1) // 7)
    groups = values[:, None] >> bits
    is_written = (groups > 0) | (bits == 0)
    groups &= 127
    groups[:, :-1] |= 128 * is_written[:, 1:]
    widths = np.concatenate([[0], np.cumsum(is_written.sum(axis=1))])
    return Column(_INT64_LIST, groups.astype(np.uint8)[is_written].tobytes(), widths[np.cumsum(counts)])


def floats(values: np.ndarray) -> Column:
    """Return a column of float values: float32[records, values of a record]."""
    records, size = values.shape
    return Column(_FLOAT_LIST, values.astype("<f4").tobytes(), 4 * size * np.arange(1, 1 + records))


def write_examples(path: str, columns: Dict[str, Column]) -> None:
    """Write a TFRecord file of tf.Examples with at least two features. The order of the features differs from record to
    record, as in files that TensorFlow writes.
    """
    random = np.random.RandomState(3)
    orders = [itemgetter(*random.permutation(len(columns))) for _ in range(_ORDERS)]
    records = len(next(iter(columns.values())).ends)
    with open(path, "wb") as file:
        for first in range(0, records, _CHUNK):
            entries = [_entries(name, column, first) for name, column in columns.items()]
            chosen = random.randint(0, len(orders), size=_CHUNK).tolist()
            bodies = [b"".join(orders[order](row)) for order, row in zip(chosen, zip(*entries))]
            file.write(framed([_message(_ONLY_FIELD, len(body)) + body for body in bodies]))
        _to_disk(file)


def write_lines(path: str, columns: Dict[str, np.ndarray]) -> None:
    """Write a text file with a line of names, and a line of comma-separated values for each record."""
    texts = [map(str, column.tolist()) for column in columns.values()]
    with open(path, "w") as file:
        file.write(",".join(columns) + "\n")
        file.writelines(",".join(row) + "\n" for row in zip(*texts))
        _to_disk(file)


def masked_crcs(texts: Sequence[bytes]) -> np.ndarray:
    """Return the CRCs of a TFRecord file, uint32[texts]: the masked CRC-32C of each text."""
    lengths = np.array([len(text) for text in texts])
    longest = int(lengths.max())
    padded = np.frombuffer(b"".join(text.ljust(longest, b"\0") for text in texts), np.uint8)
    table = _crc_table()
    crcs = np.full(len(texts), _WORD, np.uint32)
    for at, octets in enumerate(np.ascontiguousarray(padded.reshape(len(texts), longest).T)):
        following = table[(crcs ^ octets) & np.uint32(255)] ^ (crcs >> np.uint32(8))
        crcs = np.where(at < lengths, following, crcs)
    rotated = (~crcs).astype(np.uint64)
    rotated = (rotated >> np.uint64(15)) | (rotated << np.uint64(17))
    return ((rotated + np.uint64(_MASK)) & np.uint64(_WORD)).astype(np.uint32)


def _crc_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = (table >> np.uint32(1)) ^ np.where(table & np.uint32(1), np.uint32(_POLYNOMIAL), np.uint32(0))
    return table


def _entries(name: str, column: Column, first: int) -> Iterator[bytes]:
    """Yield a feature of the records of a chunk, as entries of the map of a tf.train.Features."""
    ends = column.ends[first:first + _CHUNK].tolist()
    begin = int(column.ends[first - 1]) if first else 0
    heads: Dict[int, bytes] = {}
    for end in ends:
        size = end - begin
        if size not in heads:
            heads[size] = _head(name.encode(), column.field, size)
        yield heads[size] + column.payload[begin:end]
        begin = end


def _head(name: bytes, field: int, size: int) -> bytes:
    """Return the bytes of an entry before its ``size`` bytes of packed values."""
    head = _message(_ONLY_FIELD, size)
    head = _message(field, len(head) + size) + head
    head = _message(_VALUE, len(head) + size) + head
    head = _message(_ONLY_FIELD, len(name)) + name + head
    return _message(_ONLY_FIELD, len(head) + size) + head


def _message(field: int, size: int) -> bytes:
    """Return the bytes before a field of ``size`` bytes."""
    head = [field]
    while size > 127:
        head.append(size & 127 | 128)
        size >>= 7
    return bytes([*head, size])


def framed(records: Sequence[bytes]) -> bytes:
    """Return records with their lengths and CRCs."""
    lengths = [struct.pack("<Q", len(record)) for record in records]
    crcs = [masked_crcs(texts).tolist() for texts in (lengths, records)]
    return b"".join(part for length, length_crc, record, crc in zip(lengths, crcs[0], records, crcs[1])
                    for part in (length, struct.pack("<I", length_crc), record, struct.pack("<I", crc)))


def write_parquet(path: str, group_rows: int, columns: Dict[str, np.ndarray]) -> None:
    """Write a Parquet file with row groups of ``group_rows`` rows."""
    import pyarrow.parquet

    with open(path, "wb") as file:
        pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=group_rows)
        _to_disk(file)


def _to_disk(file: IO[Any]) -> None:
    """Wait until a file is on disk, so that later writes do not disturb a measurement. The file stays in the page
    cache.
    """
    file.flush()
    os.fsync(file.fileno())
