"""Fields of a table's header that its steps read and write, as indexes of int64, for compiled code.

``tests/house`` compares these numbers with ``ascpipe.layout.structs.TABLE``, which this layer does not know.
"""

HEADER_LONGS = 64
ENTRIES_USED = 32
ENTRIES_READY = 33
HOMES_READY = 34
ACCESS_THRESHOLD = 36
COUNTING = 37
FAAE_COEFFICIENT = 38
