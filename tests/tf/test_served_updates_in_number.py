"""Many updates while clients read, and many damaged updates: no mixed version, no lost update, no damage accepted."""
import os
import random
import resource
import threading

import numpy as np
import pytest

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.reader import open_delta
from ascpipe.checkpoint.table_file import Source
from ascpipe.checkpoint.update_file import Update, Version, write_update
from tests.support.waiting import wait_until
from tests.tf import programs
from tests.tf.test_served_updates import DIM, PATIENCE_S, Model, saved

MANY = 400  #: keys that updates change
GROUPS = 40  #: update s changes the keys with k % GROUPS == s % GROUPS, and key -1
ASKED = np.arange(-1, MANY)
FIRST = 10  #: step of the checkpoint of the model

pytestmark = [pytest.mark.timeout_s(180), pytest.mark.filterwarnings("ignore:distutils Version classes")]


def wanted(step):
    """Rows of ``ASKED`` after a step, both by the changes of all updates and by this formula."""
    since = (step - ASKED % GROUPS) % GROUPS  # steps since the last change of each key
    changed = step - since
    values = np.where((changed // GROUPS) % 5 == 4, -1, changed)  # each fifth change deletes the keys
    values = np.where(changed <= FIRST, np.where(ASKED < 40, FIRST, -1), values)
    values[0] = step if step > FIRST else -1
    return values


class Writer:
    """Writes updates as if a training made them."""

    def __init__(self, folder, checkpoint):
        folder.mkdir()
        self._folder, self._last = folder, Version(FIRST, checkpoint)
        self._written = []

    def write(self, step, *, full=False):
        """Write the update of a step; the path."""
        rows = wanted(step)
        mine = np.ones(len(ASKED), bool) if full else step % GROUPS == ASKED % GROUPS
        mine[0] = True
        kept = ASKED[mine & (rows >= 0)]
        values = np.repeat(rows[mine & (rows >= 0)].astype(np.float32), DIM).reshape(-1, DIM)
        deleted = np.zeros(0, np.int64) if full else ASKED[mine & (rows < 0)]
        source = Source(DIM, lambda parts: iter([[kept, values][:1 + parts]]), deleted)
        version = Version(step, "{:064x}".format(step))
        update = Update(step, None if full else self._last, version, {"user": 3, "item": 3})
        with disk.closing(disk.open_directory(str(self._folder))) as fd:
            write_update(fd, update, {"user": source, "item": source})
        self._last = version
        self._written.append(self._folder / update.name)
        return self._written[-1]

    def remove(self):
        for path in self._written:
            path.unlink()
        self._written = []


class Client(threading.Thread):
    """Reads both tables again and again, and checks that they have the rows of the step that it reads."""

    def __init__(self, model, last):
        super().__init__(name="client", daemon=True)
        self.versions, self.wrong = set(), []
        self._model, self._last = model, last
        self.start()

    def run(self):
        step = -1
        while step < self._last and not self.wrong:
            before = step
            step, user, item = self._model.read("version", "user", "item", keys=ASKED)
            rows = np.repeat(wanted(step), DIM).reshape(-1, DIM)
            if step < before or not (np.array_equal(user, rows) and np.array_equal(item, rows)):
                self.wrong.append((before, step, user[:, 0].tolist(), item[:, 0].tolist()))
            self.versions.add(int(step))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def digest_of(prefix):
    with open_delta(prefix) as checkpoint:
        return checkpoint.link.manifest


@pytest.mark.parametrize("count", [120, pytest.param(10000, marks=[pytest.mark.long, pytest.mark.timeout_s(1200)])])
def test_clients_read_one_version_and_no_update_is_lost(count, tmp_path, record_property):
    prefix = saved(tmp_path, FIRST)
    with programs.ascpipe(), Model(prefix, tmp_path / "model", tmp_path / "updates", every_s=0.001) as model:
        writer = Writer(tmp_path / "updates", digest_of(prefix))
        clients = [Client(model, FIRST + count) for _ in range(2)]
        sizes = []
        for step in range(FIRST + 1, FIRST + count + 1):
            writer.write(step, full=step % 2500 == 0)
            if step % 20 == 10:
                wait_until(lambda step=step: model.read("version") == step, PATIENCE_S)
                assert model.read("kept_keys") <= 4 * 2 * len(ASKED)
                writer.remove()
                sizes.append(resident())
        for client in clients:
            client.join(PATIENCE_S)
            assert not client.is_alive()
            assert client.wrong == []
        assert list(model.read("version", "applied", "refused")) == [FIRST + count, count, 0]
    grown = sizes[-1] - sizes[len(sizes) // 5]
    record_property("versions", [len(client.versions) for client in clients])
    record_property("grown", grown)
    assert grown < 8 << 20
    assert min(len(client.versions) for client in clients) > count // 20


def damaged(whole, numbers):
    """The bytes of an update with random damage."""
    at = numbers.randrange(len(whole))
    kind = numbers.randrange(5)
    if kind == 0:
        return whole[:at]
    if kind == 1:
        return whole + bytes(numbers.randrange(1, 100))
    size = numbers.randrange(1, 200)
    if kind == 2:
        return whole[:at] + bytes(numbers.randrange(256) for _ in range(size)) + whole[at + size:]
    if kind == 3:
        return whole[:at] + whole[at + size:]
    return whole[:at] + bytes([whole[at] ^ 1 << numbers.randrange(8)]) + whole[at + 1:]


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=[pytest.mark.long, pytest.mark.timeout_s(1200)])])
def test_no_damaged_update_is_accepted(count, tmp_path):
    prefix = saved(tmp_path, FIRST)
    numbers = random.Random(count)
    with programs.ascpipe(), Model(prefix, tmp_path / "model", tmp_path / "updates", every_s=0.001) as model:
        writer = Writer(tmp_path / "updates", digest_of(prefix))
        for step in (FIRST + 1, FIRST + 2):
            path = writer.write(step)
            wait_until(lambda step=step: model.read("version") == step, PATIENCE_S)
        delta = path.read_bytes()
        for turn in range(count):
            step = FIRST + 3 + turn % 5
            path = tmp_path / "updates" / "update-{:016d}.delta".format(step)
            source = Writer(tmp_path / "source-{}".format(turn), "{:064x}".format(FIRST + 2))
            whole = source.write(step).read_bytes() if turn % 10 else delta  # an update under another name
            bad = damaged(whole, numbers) if turn % 10 else whole
            if bad == whole and turn % 10:
                continue
            refused = model.read("refused")
            (tmp_path / "new").write_bytes(bad)
            os.rename(str(tmp_path / "new"), str(path))
            wait_until(lambda refused=refused: model.read("refused") == refused + 1, PATIENCE_S)
            version, user, item, applied = model.read("version", "user", "item", "applied", keys=ASKED)
            rows = np.repeat(wanted(FIRST + 2), DIM).reshape(-1, DIM)
            assert (int(version), int(applied)) == (FIRST + 2, 2)
            assert np.array_equal(user, rows)
            assert np.array_equal(item, rows)
            path.unlink()
