"""Which worker is bound to which processor."""
import os

import pytest

from ascpipe.config import load_settings
from ascpipe.daemon.supervisor import bound_processors
from ascpipe.daemon.worker_identity import KEY, TABLE, Worker
from ascpipe.errors import ConfigError


def bound(monkeypatch, **options):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 3})
    return bound_processors(load_settings(options, {}))


def test_nobody_is_bound_where_nothing_is_said(monkeypatch):
    assert bound(monkeypatch) == {}


def test_processors_are_dealt_out_in_turn_key_workers_first(monkeypatch):
    assert bound(monkeypatch, bind_cpu="2-3,0", workers=2, table_workers=2) == {
        Worker(KEY, 0): 2, Worker(KEY, 1): 3, Worker(TABLE, 0): 0, Worker(TABLE, 1): 2}


def test_a_processor_that_is_not_ours_is_refused_with_those_that_are(monkeypatch):
    with pytest.raises(ConfigError, match=r"E402.*bind_cpu.*processor 1 is not.*0,2,3"):
        bound(monkeypatch, bind_cpu="0,1")
