"""TFRecord files, byte by byte, without TensorFlow."""
import functools
import gzip
import os
import struct
import zlib

from tests.support.examples import example, feature

_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _TABLE.append(_byte)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def checksum(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2 ** 32)


def header(length):
    return struct.pack("<Q", length) + checksum(struct.pack("<Q", length))


@functools.lru_cache(maxsize=1 << 16)  # tests write the same records again and again
def record(data):
    return header(len(data)) + data + checksum(data)


def content(records):
    return b"".join(map(record, records))


def compressed(data, compression):
    """``data`` as the content of a file: compression is ``""``, ``"GZIP"`` or ``"ZLIB"``."""
    return {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[compression](data)


def write(path, records, compression=""):
    """Write a file of records and return its path as a string."""
    path.write_bytes(compressed(content(records), compression))
    return str(path)


@functools.lru_cache(maxsize=1 << 16)
def click(number):
    """A record of a recommender: a label, 3 floats, an id, a list of ids, and a text."""
    return example([("label", feature("float32", [number % 2])), ("dense", feature("float32", [number, 0.5, -1.0])),
                    ("user", feature("int64", [number * 7])), ("tags", feature("int64", list(range(number % 4)))),
                    ("query", feature("string", [b"text %d" % number]))])


def clicks(count, first=0):
    """Return the records `click(first)` to `click(first + count - 1)`."""
    return list(map(click, range(first, first + count)))


def change(path, how, records):
    """Change a file of ``records`` while a program reads it.

    Args:
        how: replaced (the file that was opened has not changed), grown, truncated, touched, or deleted.
    """
    if how == "replaced":
        other = path.with_name("other")
        other.write_bytes(b"".join(records[::-1]))
        other.replace(path)
    elif how == "grown":
        with open(str(path), "ab") as file:
            file.write(records[0])
    elif how == "truncated":
        os.truncate(str(path), 100)
    elif how == "touched":
        os.utime(str(path), ns=(1, 1))
    else:
        path.unlink()
