"""The columns of the Criteo logs read a record of the logs."""
from ascpipe.data import criteo
from ascpipe.data.columns import ColumnParser

RECORD = b"\t".join([b"1", b"", b"-2", b"1382", *[b"7"] * 10, b"68fd1e64", b"", b"ffffffff", *[b"0a519c5c"] * 23])


def test_a_record_of_the_logs_is_read():
    parser = ColumnParser(criteo.COLUMNS, criteo.FORMAT)
    values, error = parser.parse([RECORD])
    assert error is None
    assert [one[0] for one in values] == [1, 0, -2, 1382, *[7] * 10, 0x68fd1e64, 0, 0xffffffff, *[0x0a519c5c] * 23]
    assert [one.name for one in criteo.COLUMNS][::13] == ["label", "I13", "C13", "C26"]
    assert parser.parse([RECORD[1:]]).error == "Field 0 is required but missing in record 0!"
