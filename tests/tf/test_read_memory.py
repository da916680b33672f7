"""``asc.data.read`` reads large files with constant memory. ``TEST_READ_GB`` is the size in the long forms."""
import json
import os
import shutil
import struct
import zlib

import pytest
import tensorflow as tf

from tests.support import forked_calls, tree
from tests.support.examples import example, feature

VALUES = 1024
REPEATED = 2000  #: records of a block, about 8 MB
LONG_GB = float(os.environ.get("TEST_READ_GB", "20"))
GROWTH_BYTES = 48 << 20  #: of the second half; less than two windows of a compressed file
LONG = [pytest.mark.long, pytest.mark.timeout_s(1800)]

pytestmark = [pytest.mark.timeout_s(120), pytest.mark.usefixtures("forked_programs")]


@pytest.fixture(scope="module")
def block(tmp_path_factory):
    """Records with 1024 floats each. The first one is the number of the record in the block."""
    path = tmp_path_factory.mktemp("block") / "block.tfrecord"
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(REPEATED):
            file.write(example([("floats", feature("float32", [number] + [0.5] * (VALUES - 1)))]))
    return path.read_bytes()


def write_plain(path, content, times):
    with open(path, "wb") as file:
        for _ in range(times):
            file.write(content)


def write_gzip(path, content, times):
    """Write the same compressed block again and again: a full flush ends at a byte, and forgets what was before."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = packer.compress(content) + packer.flush(zlib.Z_FULL_FLUSH)
    crc = 0
    with open(path, "wb") as file:
        file.write(struct.pack("<BBBBIBB", 0x1f, 0x8b, 8, 0, 0, 0, 3))
        for _ in range(times):
            file.write(packed)
            crc = zlib.crc32(content, crc)
        file.write(zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS).flush())
        file.write(struct.pack("<II", crc, len(content) * times & 0xffffffff))


@pytest.mark.parametrize("gigabytes", [0.16, pytest.param(LONG_GB, marks=LONG)])
@pytest.mark.parametrize("write", [write_plain, write_gzip])
def test_a_large_file_is_read_with_constant_memory(tmp_path, write, gigabytes, block):
    times = max(1, int(gigabytes * 1e9 / len(block)))
    if write is write_plain and shutil.disk_usage(str(tmp_path)).free < 1.2 * times * len(block):
        pytest.skip("needs {:.0f} GB of disk space in {}".format(1.2 * gigabytes, tmp_path))
    path = str(tmp_path / "large.tfrecord")
    write(path, block, times)
    code, out, err = forked_calls.python(["-m", "tests.support.programs.read_all", path, VALUES], tree.ROOT,
                                         dict(os.environ), 1700.0)
    os.remove(path)
    assert code == 0, err
    result = json.loads(out)
    assert result["records"] == REPEATED * times
    assert result["total"] == times * REPEATED * (REPEATED - 1) / 2
    assert result["whole"] - result["half"] < GROWTH_BYTES
