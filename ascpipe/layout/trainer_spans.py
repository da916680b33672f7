"""Structs of the files in which a trainer records spans for ``ascpipe timeline``."""
from ascpipe.layout.declaring import struct

TRAINER_SPANS = struct(
    "TrainerSpans", 128,
    version=("<u4", 0, "S, last"),
    magic=("<u4", 4, "S"),
    capacity=("<i8", 8, "S: maximum number of spans"),
    pid=("<i4", 16, "S: of the trainer"),
    rank=("<i4", 20, "T: id of this process, written before ranks"),
    ranks=("<i4", 24, "T: 0 = not yet used by the trainer"),
    count=("<i8", 64, "T: spans so far; span n is at n % capacity"),
)

EXCHANGE_SPAN = struct(
    "ExchangeSpan", 72,
    start_ns=("<i8", 0, "T: start, since 1970"),
    duration_ns=("<i8", 8, "T"),
    sequence=("<i8", 16, "T: number of the exchange, the same on all ranks"),
    ticket=("<i8", 24, "T: batch number in the iterator, 0 = none"),
    bytes_sent=("<i8", 32, "T: to other ranks"),
    bytes_received=("<i8", 40, "T: from other ranks"),
    waited_us=("<i8", 48, "T: part of the duration until the last rank joined"),
    stream=("<i4", 56, "T: of its batch"),
    kind=("<i4", 60, "T: kind announced by this rank: EXCHANGE_KINDS"),
    last=("<i4", 64, "T: rank that joined last, -1 = unknown"),
)

READING_SPAN = struct(
    "ReadingSpan", 72,
    start_ns=("<i8", 0, "T: time at which the thread began to read the batch, since 1970"),
    read_us=("<i8", 8, "T: time in which it read, decompressed and verified the records"),
    parse_us=("<i8", 16, "T: time in which it parsed them"),
    full_us=("<i8", 24, "T: time before the start in which it waited because read_ahead batches were read"),
    batch=("<i8", 32, "T: batch number in the iterator, from 1"),
    epoch=("<i8", 40, "T: from 0"),
    records=("<i8", 48, "T: in the batch; 0 = the batch is an error"),
    source=("<i8", 56, "T: number of the dataset in this process"),
    thread=("<i4", 64, "T: thread id of the kernel"),
)
