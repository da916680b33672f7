"""Random records of text files with typed columns: correct, missing and wrong values, and numbers of all forms."""
import struct

from ascpipe.data.columns import FLOAT32, FLOAT64, HEX, INT32, INT64, STRING, Column

TYPES = [INT32, INT64, FLOAT32, FLOAT64, STRING]
DEFAULTS = {INT32: -5, INT64: 2 ** 40, FLOAT32: 0.25, FLOAT64: 1e300, STRING: b"none", HEX: 7}
NA = b"NA"
_LIMITS = [2 ** 31, 2 ** 63, 10 ** 18, 10 ** 9, 0]


def columns(draw, types=TYPES):
    """Return one to six random columns."""
    found = []
    for number in range(draw.randint(1, 6)):
        kind = draw.choice(types)
        found.append(Column("c{}".format(number), kind, DEFAULTS[kind] if draw.random() < 0.7 else None))
    return found


def _digits(draw, most):
    return "".join(draw.choice("0123456789") for _ in range(draw.randint(0, most)))


def real(draw):
    """Return the text of a random number, in the forms that programs write, and at the limits of the types."""
    kind = draw.randrange(7)
    if kind == 0:
        text = _digits(draw, 20) + "." + _digits(draw, 18)
    elif kind == 1:
        text = repr(struct.unpack("<d", struct.pack("<Q", draw.getrandbits(64)))[0])
    elif kind == 2:  # a boundary between two floats
        bits = draw.getrandbits(31)
        text = "%.17g" % (sum(struct.unpack("<2f", struct.pack("<2I", bits, bits + 1))) / 2)
    elif kind == 3:  # the least normal float
        factor = 1 + draw.choice([0, 1, -1]) * 2.0 ** -draw.randint(20, 52)
        text = "%.*e" % (draw.randint(8, 22), 2.0 ** -126 * factor)
    elif kind == 4:
        text = _digits(draw, 17) + "e" + draw.choice(["", "-", "+"]) + str(draw.choice([3, 20, 45, 320, 99999]))
    elif kind == 5:
        text = "0x{:x}".format(draw.getrandbits(draw.randint(1, 110)))
    else:
        text = "".join(draw.choice(" 0123456789.eE+-xinfaNF") for _ in range(draw.randint(1, 8)))
    return draw.choice(["", "", "", "-", "+"]) + text


def field(draw, kind):
    """Return a random field for a column: most often a value of its type."""
    chance = draw.random()
    if chance < 0.15:
        return draw.choice([b"", NA])
    if chance < 0.2:
        return draw.choice([b" ", b"x", b"1.5", b"+1", b"1 2", b"12345678901", b"-", b"\xc3\xa9", b"1\0", b"0x1f"])
    if kind == STRING:
        return draw.choice([b"text", b"a,b", b"a\tb", b"a\nb", b"a\r\nb", b'say "no"', b"\xff\xfe", b'"', b" a ",
                            b"x" * 40])
    if kind == HEX:
        return "{:0{}x}".format(draw.getrandbits(draw.choice([32, 32, 4, 64])), draw.choice([1, 8])).encode()
    if kind in (FLOAT32, FLOAT64):
        text = real(draw)
    else:
        limit = draw.choice(_LIMITS) * draw.choice([1, -1])
        text = str(draw.choice([draw.randint(-999, 999), limit + draw.randint(-2, 2)]))
    return (draw.choice(["", "", "", " ", "\t "]) + text + draw.choice(["", "", "", " "])).encode()
