"""Columns of an entry, for kernels that see the entries of a table as plain integer arrays.

An entry is 48 bytes; kernels get it twice, as a row of six int64 and as a row of twelve int32 of the
same memory.  ``tests/house`` compares these numbers with ``ascpipe.layout.structs.ENTRY``.
"""

INT64_COLUMNS = 6
KEY = 0
COUNT = 1
TIMESTAMP = 2
LAST = 3

INT32_COLUMNS = 12
SLOT = 8
STATE = 9
FREQUENCY = 10
HOME = 11

# An image: the number of an entry, then the entry.
IMAGE_INT64_COLUMNS = 1 + INT64_COLUMNS
IMAGE_ENTRY = 0
IMAGE_CONTENT = 1
