"""Struct in shared memory with the counters of threads that read training data. ``ascpipe/layout/structs.py`` defines
its offset.
"""
from ascpipe.layout.declaring import struct

READING = struct(  # totals of all threads of the trainer that read training data
    "Reading", 128,
    records=("<i8", 0, "T: records in batches"),
    bytes=("<i8", 8, "T: decompressed bytes of the records of these batches"),
    batches=("<i8", 16, "T: batches that were read"),
    skipped=("<i8", 24, "T: bad records that were skipped"),
    read_us=("<i8", 32, "T: time in which threads read, decompress and verify records"),
    parse_us=("<i8", 40, "T: time in which threads parse records"),
    full_us=("<i8", 48, "T: time in which threads wait because read_ahead batches were read"),
    waited_us=("<i8", 56, "T: time in which the program waits for a batch"),
    readers=("<i8", 64, "T: threads that exist now"),
)
