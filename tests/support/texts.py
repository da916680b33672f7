"""Random contents of text files: correct CSV, and mutated CSV."""
import random

ODD = [b"", b" ", b"a", b"1", b"-7", b"x y", b"\xff\xfe", b"\xc3\xa9", b"a,b", b"a\nb", b"a\r\nb", b'say "no"', b'"',
       b",", b"\n", b"\t", b"0" * 50]


def quoted(field, delimiter, draw):
    """Return a field as it is written in a file: quoted if necessary, and sometimes without need."""
    if any(byte in field for byte in (delimiter, b'"', b"\n", b"\r")) or draw.random() < 0.2:
        return b'"' + field.replace(b'"', b'""') + b'"'
    return field


def rows(draw, count, columns):
    """Return random rows of fields."""
    return [[draw.choice(ODD) for _ in range(columns)] for _ in range(count)]


def content(of_rows, draw, delimiter=b",", line_end=b"\n"):
    """Return the content of a file."""
    lines = [delimiter.join(quoted(field, delimiter, draw) for field in row) for row in of_rows]
    return line_end.join(lines) + (line_end if draw.random() < 0.7 else b"")


def mutated(whole, draw):
    """Return a copy of a content with one to three changes, most often to quotes, delimiters and line ends."""
    changed = bytearray(whole)
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(changed) + 1)
        kind = draw.randrange(4)
        if kind == 0:
            del changed[place:place + draw.choice([1, 1, 1, 30])]
        elif kind == 1 and draw.random() < 0.3:
            del changed[place:]
        elif place < len(changed) and kind == 2:
            changed[place] ^= 1 << draw.randrange(8)
        else:
            changed[place:place] = draw.choice([b'"', b'"', b'""', b"\n", b"\r", b"\r\n", b",", b"\t", b"\0", b"\xff"])
    return bytes(changed)


def soup(draw, size):
    """Return random bytes, most of which have a meaning in CSV."""
    return bytes(draw.choice(b'"",,\n\r\na1 \t\xff') for _ in range(size))


def seeded(seed):
    """Return a generator of random numbers."""
    return random.Random(seed)
