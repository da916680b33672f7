"""Checkpoints of every released format can be restored. docs/internals/releases.md has the promise."""
import tarfile
from pathlib import Path

import pytest

from ascpipe.checkpoint import manifest
from ascpipe.checkpoint.reader import open_checkpoint, trained_batches
from tests.support import checkpoints
from tests.support.checkpoints import content

SAVED = Path(__file__).parent / "saved"
CONTENTS = [content("user", 9, 2, pool_rows=3), content("item", 4, 1, slots=("ftrl_accum", "ftrl_linear"), seed=1)]


def unpacked(name, directory):
    with tarfile.open(str(SAVED / (name + ".tar.xz"))) as archive:
        archive.extractall(str(directory))
    return str(directory / "model.ckpt-3")


# ascpipe 0.2.0 saved these files: version 2 is of one rank, version 3 of three ranks.
@pytest.mark.parametrize("version, ranks", [(2, 1), (3, 3)])
def test_a_checkpoint_of_each_released_format_can_be_restored(tmp_path, version, ranks):
    prefix = unpacked("format-{}".format(version), tmp_path)
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, CONTENTS)
        assert len(checkpoint.positions) == ranks
    assert trained_batches(prefix) == {"train 'é'": 4}


def test_each_format_that_is_written_has_a_saved_checkpoint():
    written = {manifest.VERSION, manifest.SLICED_VERSION}
    assert {"format-{}.tar.xz".format(version) for version in written} <= {path.name for path in SAVED.iterdir()}
