"""Records of a text file, in plain Python: the twin of ``tfops/src/input/record_end.h``."""


def split(content, delimiter=b",", use_quotes=True):
    """Return the offset, size and data of each record, and whether the last record has a quote that is not closed."""
    records = []
    begin = 0
    while begin < len(content):
        end, size = _end(content, begin, delimiter, use_quotes)
        if end is None:
            return records, True
        records.append((begin, size, content[begin:end]))
        begin += size
    return records, False


def _end(content, begin, delimiter, use_quotes):
    """Return the end of the data of a record, and the size of the record with its line end."""
    at = begin
    while True:
        if use_quotes and content[at:at + 1] == b'"':
            at = _after_quotes(content, at + 1, delimiter)
            if at is None:
                return None, None
        while at < len(content) and content[at:at + 1] not in (delimiter, b"\n", b"\r"):
            at += 1
        if content[at:at + 1] != delimiter:
            line_end = 2 if content[at:at + 2] == b"\r\n" else 1 if at < len(content) else 0
            return at, at + line_end - begin
        at += 1


def _after_quotes(content, at, delimiter):
    """Return the position after the closing quote of a field, or None if there is none."""
    while True:
        quote = content.find(b'"', at)
        if quote < 0:
            return None
        if content[quote + 1:quote + 2] in (delimiter, b"\n", b"\r", b""):
            return quote + 1
        at = quote + 2  # after an escaped quote, or after a byte that the parser refuses
