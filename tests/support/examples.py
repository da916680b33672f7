"""Bytes of tf.train.Example records, in all forms of the wire format, without TensorFlow."""
import struct

TYPES = {"int64": 3, "float32": 2, "string": 1}  #: field numbers of the lists in tf.train.Feature


def varint(number):
    out, number = bytearray(), number % 2 ** 64
    while number >= 128:
        out.append(number % 128 + 128)
        number //= 128
    return bytes(out + bytes([number]))


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def packed(dtype, values):
    if dtype == "int64":
        return b"".join(map(varint, values))
    return b"".join(struct.pack("<f", value) for value in values)


def feature(dtype, values, is_packed=True):
    """A tf.train.Feature. ``dtype`` is a name in ``TYPES``."""
    if dtype == "string":
        inner = b"".join(field(1, value) for value in values)
    elif is_packed:
        inner = field(1, packed(dtype, values)) if values else b""
    else:
        tag = varint(1 << 3 | (0 if dtype == "int64" else 5))
        inner = b"".join(tag + packed(dtype, [value]) for value in values)
    return field(TYPES[dtype], inner)


def entry(name, data):
    return field(1, field(1, name.encode("utf-8", "surrogateescape")) + field(2, data))


def example(entries):
    """A tf.train.Example of pairs of a name and a feature."""
    return field(1, b"".join(entry(name, data) for name, data in entries))
