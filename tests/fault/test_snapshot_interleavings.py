"""Entries are copied while a table worker assigns records, and it is killed between any two stores."""
import pytest

from ascpipe.tables import snapshot
from ascpipe.tables.snapshot import Images
from ascpipe.tables.table import Table
from ascpipe.workers.cuts import Cuts
from ascpipe.workers.snapshots import Snapshots
from tests.support import stepwise
from tests.support.any_schedule import AnySchedule
from tests.support.covering import some
from tests.support.store_pauses import Pauses

SEEDS = 40


@pytest.fixture
def pauses(monkeypatch):
    return Pauses(monkeypatch)


@pytest.mark.parametrize("seed", some(range(SEEDS), *range(12, 18)))  # the next test has the first ones
def test_a_snapshot_is_the_table_as_it_was_when_it_began_whoever_dies(pauses, seed):
    AnySchedule(pauses, seed, saves=True).run()


def test_schedules_have_snapshots_with_images_full_logs_and_kills(pauses):
    runs = [AnySchedule(pauses, seed, saves=True) for seed in range(12)]
    for run in runs:
        run.run()
    assert all(run.snapshots for run in runs)
    for what in ("images", "waits", "kills"):
        assert sum(getattr(run, what) for run in runs) > 5, what


def no_images(monkeypatch):
    monkeypatch.setattr(Snapshots, "keep", lambda self, record: True)


def no_marks_after_a_restart(monkeypatch):
    monkeypatch.setattr(snapshot, "mark_kept", lambda log, end, marks: None)


def marks_of_the_last_snapshot(monkeypatch):
    monkeypatch.setattr(Images, "forget", lambda self: None)
    monkeypatch.setattr(Images, "_mark", lambda self, mark=Images._mark: mark(self) if not len(self._marks) else None)


def images_after_the_change(monkeypatch):
    keep, late = Snapshots.keep, []

    def then_keep(assign):
        def call(*args):
            result = assign(*args)
            while late:
                keep(*late.pop())
            return result

        return call

    monkeypatch.setattr(Snapshots, "keep", lambda self, record: late.append((self, record)) or True)
    monkeypatch.setattr(Table, "assign", then_keep(Table.assign))
    monkeypatch.setattr(stepwise.TABLE, "assign", then_keep(stepwise.TABLE.assign))


def a_full_log_ignored(monkeypatch):
    monkeypatch.setattr(Snapshots, "keep", lambda self, record, keep=Snapshots.keep: keep(self, record) or True)


def images_of_some_entries_only(monkeypatch):
    keep = snapshot.keep_images
    monkeypatch.setattr(snapshot, "keep_images", lambda changed, *rest: keep(changed[:1], *rest))


def a_cut_that_does_not_wait(monkeypatch):
    monkeypatch.setattr(Cuts, "must_wait", lambda self: False)


@pytest.mark.parametrize("flaw", [
    no_images, no_marks_after_a_restart, marks_of_the_last_snapshot, images_after_the_change, a_full_log_ignored,
    images_of_some_entries_only, a_cut_that_does_not_wait], ids=lambda flaw: flaw.__name__)
def test_a_planted_flaw_is_caught(pauses, monkeypatch, flaw):
    flaw(monkeypatch)
    for seed in range(SEEDS):
        try:
            AnySchedule(pauses, seed, saves=True).run()
        except AssertionError as error:
            assert "snapshot has" in str(error) or "two images of an entry" in str(error)
            return
    pytest.fail("no schedule shows it")
