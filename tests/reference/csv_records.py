"""Values of text records as tf.io.decode_csv parses them: the twin of ``tfops/src/input/csv_parser.h``."""
import math
import re
from fractions import Fraction

_SPACES = b" \t\n\v\f\r"
_INTEGER = re.compile(rb"-?[0-9]+", re.ASCII)
_DECIMAL = re.compile(rb"([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_NAMES = {"float32": "float", "float64": "double", "hex": "hexadecimal int64"}


class Invalid(Exception):
    """The record is invalid."""


def parse(record, columns, number=0, delimiter=b",", use_quotes=True, na_value=b"", select_cols=None):
    """Return the values of a record: bytes, int or float. ``columns`` are pairs of a type and a default or None.

    Raises:
        Invalid: with the text of decode_csv.
    """
    found = fields(record, delimiter, use_quotes, select_cols)
    if len(found) != len(columns):
        raise Invalid("Expect {} fields but have {} in record {}".format(len(columns), len(found), number))
    values = []
    for place, (text, (kind, default)) in enumerate(zip(found, columns)):
        if text in (b"", na_value):
            if default is None:
                raise Invalid("Field {} is required but missing in record {}!".format(place, number))
            values.append(default)
            continue
        value = convert(text, kind)
        if value is None:
            raise Invalid("Field {} in record {} is not a valid {}: {}".format(
                place, number, _NAMES.get(kind, kind), shown(text)))
        values.append(value)
    return values


def shown(text):
    return text.decode("utf-8", "backslashreplace").replace("\0", "\\x00")


def fields(record, delimiter, use_quotes, select_cols):
    found = []
    number = at = 0
    while at < len(record):
        if record[at:at + 1] in (b"\n", b"\r"):
            at += 1
            continue
        if use_quotes and record[at:at + 1] == b'"':
            text, at = quoted(record, at + 1, delimiter)
        else:
            end = record.find(delimiter, at)
            end = len(record) if end < 0 else end
            text, at = record[at:end], end + 1
            if b"\n" in text or b"\r" in text or (use_quotes and b'"' in text):
                raise Invalid("Unquoted fields cannot have quotes/CRLFs inside")
        if select_cols is None or number in select_cols:
            found.append(text)
            if select_cols is not None and len(found) == len(select_cols):
                return found
        number += 1
    if record.endswith(delimiter) and (select_cols is None or number in select_cols):
        found.append(b"")
    return found


def quoted(record, at, delimiter):
    text = b""
    while at < len(record) - 1 and record[at:at + 2] != b'"' + delimiter:
        if record[at:at + 1] == b'"':
            if record[at + 1:at + 2] != b'"':
                raise Invalid("Quote inside a string has to be escaped by another quote")
            at += 1
        text += record[at:at + 1]
        at += 1
    if record[at:at + 1] != b'"':
        raise Invalid("Quoted field has to end with quote followed by delim or end")
    return text, at + 2


def convert(text, kind):
    """Return the value of a field, or None if the field is invalid."""
    if kind == "string":
        return text
    if kind == "hex":
        if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", text):
            return None
        value = int(text, 16)
        return value - 2 ** 64 if value >= 2 ** 63 else value
    if kind in ("int32", "int64"):
        text = text.strip(_SPACES)
        limit = 2 ** (int(kind[3:]) - 1)
        value = int(text) if _INTEGER.fullmatch(text) else limit
        return value if -limit <= value < limit else None
    return _real(text, 24 if kind == "float32" else 53)


def _real(text, bits):
    if len(text) > 31:
        return None
    text = text.strip(_SPACES)
    if not text:
        return 0.0
    sign = -1.0 if text[:1] == b"-" else 1.0
    if text[:1] in b"+-":
        text = text[1:]
    if text.lower() in (b"inf", b"nan"):
        return math.copysign(float(text), sign)
    if re.fullmatch(rb"0[xX][0-9a-fA-F]+", text):
        number = int(text, 16)
        return sign * _rounded(Fraction(number), bits)
    match = _DECIMAL.fullmatch(text)
    if not match or not (match.group(1) or match.group(2)):
        return None
    if abs(int(match.group(3) or 0)) > 1000:
        has_digits = (match.group(1) + (match.group(2) or b"")).strip(b"0")
        return sign * (float("inf") if has_digits and int(match.group(3)) > 0 else 0.0)
    return sign * _rounded(Fraction(text.decode().rstrip(".") if match.group(3) is None else _plain(match)), bits)


def _plain(match):
    whole, fraction, power = match.groups()
    return "{}.{}e{}".format((whole or b"0").decode(), (fraction or b"0").decode(), power.decode())


def _rounded(number, bits):
    """Return a positive number rounded to a float32 (24 bits, without subnormal numbers) or a float64 (53 bits)."""
    if bits == 53:
        try:
            return float(number)
        except OverflowError:
            return float("inf")
    if number == 0:
        return 0.0
    power = number.numerator.bit_length() - number.denominator.bit_length()
    power -= Fraction(2) ** power > number
    unit = Fraction(2) ** (power - bits + 1)
    rounded = round(number / unit) * unit  # half to even
    if rounded >= Fraction(2) ** 128:
        return float("inf")
    # The thread flushes subnormal floats, except near the least normal float: double-conversion rounds the next double.
    next_double = Fraction(float(number)) + Fraction(2) ** -179
    if next_double < Fraction(2) ** -126 * (1 - Fraction(2) ** -25):
        return 0.0
    return max(float(rounded), 2.0 ** -126)
