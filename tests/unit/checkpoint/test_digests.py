"""The digest of a file is that of docs/reference/checkpoints.md, whatever pieces the content comes in."""
import hashlib
import os
import zlib

import numpy as np
import pytest

from ascpipe.checkpoint.digests import PIECE_BYTES, StreamDigest, digest_of, file_digest

SIZES = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES, 2 * PIECE_BYTES + 12345]


def sums_of(content):
    return b"".join(zlib.crc32(content[begin:begin + PIECE_BYTES]).to_bytes(4, "little")
                    for begin in range(0, len(content), PIECE_BYTES))


@pytest.mark.parametrize("size", SIZES)
def test_a_digest_is_of_the_length_and_the_checksum_of_each_mebibyte(size, tmp_path):
    content = np.random.RandomState(size).bytes(size)
    wanted = hashlib.blake2b(size.to_bytes(8, "little") + sums_of(content), digest_size=32).hexdigest()
    assert digest_of(content) == wanted
    for step in (1000003, PIECE_BYTES, 17 + size // 3):
        stream = StreamDigest()
        for begin in range(0, size, step):
            stream.update(content[begin:begin + step])
        assert (stream.size, stream.sums(), stream.hexdigest()) == (size, sums_of(content), wanted)
    (tmp_path / "file").write_bytes(content + b"more")
    fd = os.open(str(tmp_path / "file"), os.O_RDONLY)
    try:
        assert file_digest(fd, size) == wanted
    finally:
        os.close(fd)
