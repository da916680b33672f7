"""No test of this folder takes the power away, so nothing waits for the disk; ``tests/fault`` does."""
import os

import pytest

from ascpipe.checkpoint import disk


@pytest.fixture(autouse=True)
def _nothing_waits_for_the_disk(monkeypatch):
    monkeypatch.setattr(disk, "sync", os.fstat)
