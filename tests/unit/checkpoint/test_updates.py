"""Updates for servers: which files are written, what they have, and which are removed."""
import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from ascpipe.checkpoint import disk, update_file
from ascpipe.checkpoint.contents import Block
from ascpipe.checkpoint.errors import (
    CheckpointPathError,
    DamagedCheckpointError,
    NoCheckpointError,
    UnverifiedCheckpointError,
    UpdateNotExportedError,
)
from ascpipe.checkpoint.reader import open_checkpoint
from ascpipe.checkpoint.table_file import ENTRY, HEADER
from ascpipe.checkpoint.update_file import read_update, sequences
from ascpipe.checkpoint.updates import export_updates
from ascpipe.cli.main import main
from tests.support import checkpoints
from tests.unit.checkpoint.test_slices import save as save_of_ranks

DIM = 4


def first(rows=30):
    """A table of random rows, some of them below the access threshold of 3."""
    content = checkpoints.content(rows=rows, dim=DIM)
    content.block = content.block._replace(counts=content.block.counts % 6)
    return content


def delta_of(content, seed, step_rows=6, deleted=2, **spec):
    """Changes of a table: some of its keys and new keys, candidates among its keys, and deleted keys."""
    random = np.random.RandomState(seed)
    keys = random.permutation(content.block.keys)
    new = random.randint(1 << 40, 1 << 41, 3)
    changed = np.concatenate([keys[:step_rows], new])
    block = Block(changed, random.randn(len(changed), content.spec.row_floats).astype(np.float32),
                  random.randint(0, 6, len(changed)), np.full(len(changed), 7))
    candidates = type(content.candidates)(*(values[:4] for values in content.candidates))
    candidates = candidates._replace(keys=keys[step_rows:step_rows + len(candidates.keys)])
    gone = np.sort(keys[20:20 + deleted])
    made = content.spec._replace(rows=len(changed), candidates=len(candidates.keys), deleted=len(gone), **spec)
    return checkpoints.Content(made, block, candidates, deleted=gone)


def chain(folder, deltas, start=1):
    """The prefixes of a full checkpoint and deltas upon it."""
    content = first()
    prefixes = [checkpoints.save(folder, start, [content])]
    for number in range(deltas):
        prefixes.append(checkpoints.save(folder, start + 1 + number, [delta_of(content, number)],
                                         parent=prefixes[-1]))
    return prefixes


def table_in(path):
    """key -> embedding, or None for a deleted key, of the only table of an update."""
    content = path.read_bytes()
    table = np.frombuffer(content, update_file.TABLE, 1, update_file.HEADER.itemsize)[0]
    start = int(table["offset"])
    header = np.frombuffer(content, HEADER, 1, start)[0]
    count = int(header["key_count"])
    buckets = start + 64 + 8 * ((1 << int(header["bucket_bits"])) + 1)
    entries_at = start + (buckets - start + 63) // 64 * 64
    entries = np.frombuffer(content, ENTRY, count, entries_at)
    rows_at = start + (entries_at + count * ENTRY.itemsize - start + 63) // 64 * 64
    rows = np.frombuffer(content, "<f4", (count - int(header["deleted"])) * DIM, rows_at).reshape(-1, DIM)
    assert (entries["row"] < 0).sum() == header["deleted"]
    return {int(entry["key"]): rows[entry["row"]].tobytes() if entry["row"] >= 0 else None for entry in entries}


def shown(prefix):
    """key -> embedding of all keys that lookups find in a checkpoint."""
    with open_checkpoint(prefix) as checkpoint:
        return {int(key): row[:DIM].tobytes() for block in checkpoint.blocks("user")
                for key, row, count in zip(block.keys, block.rows, block.counts) if count >= 3}


def files(folder):
    return sorted(name for name in os.listdir(str(folder)) if not name.startswith("."))


def kinds(found):
    return [(one.kind, one.base_step, one.step) for one in found]


def test_updates_have_the_changes_of_each_delta(tmp_path):
    prefixes = chain(tmp_path, 3)
    to = tmp_path / "updates"
    written = [export_updates(prefixes[0], str(to)), export_updates(prefixes[1], str(to)),
               export_updates(prefixes[1], str(to)), export_updates(str(tmp_path), str(to))]
    assert [kinds(one) for one in written] == [
        [("full", None, 1)], [("delta", 1, 2)], [], [("delta", 2, 3), ("delta", 3, 4)]]
    rows = {}
    for name, prefix, one in zip(files(to), prefixes, [one for some in written for one in some]):
        assert one.path == str(to / name)
        changes = table_in(to / name)
        assert (one.rows, one.deleted) == (sum(row is not None for row in changes.values()),
                                           sum(row is None for row in changes.values()))
        assert one.size == os.path.getsize(one.path)
        rows.update(changes)
        assert {key: row for key, row in rows.items() if row is not None} == shown(prefix)
    with disk.closing(disk.open_directory(str(to))) as fd:
        updates = [read_update(fd, name) for name in files(to)]
    assert [one.base for one in updates] == [None, *(one.version for one in updates[:-1])]
    assert [one.thresholds for one in updates] == [{"user": 3}] * 4
    assert sequences(["b", *files(to)[::-1]]) == {one.name: (one.sequence, one.base is None) for one in updates}


def test_a_full_update_is_written_if_the_newest_is_no_ancestor_and_older_files_are_removed(tmp_path):
    prefixes = chain(tmp_path / "one", 2)
    others = chain(tmp_path / "other", 1, start=9)
    to = tmp_path / "updates"
    for prefix, wanted in ((prefixes[1], [("full", None, 2)]), (prefixes[2], [("delta", 2, 3)]),
                           (others[1], [("full", None, 10)]), (prefixes[2], [("full", None, 3)]),
                           (prefixes[0], [("full", None, 1)])):
        before = set(files(to)) if to.exists() else set()
        assert kinds(export_updates(prefix, str(to))) == wanted
        assert before <= set(files(to)) if wanted[0][0] == "delta" else len(files(to)) == 1
        names = files(to)
        assert table_in(to / names[0]) == shown(prefix) or wanted[0][0] == "delta"
        assert max(names) not in before


def test_progress_counts_the_rows_of_each_file(tmp_path):
    prefix = chain(tmp_path / "model", 2)[-1]
    seen = []
    found = export_updates(prefix, str(tmp_path / "out"), progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == found[0].rows <= seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_at_most_keep_deltas_follow_a_full_update(tmp_path):
    prefixes = chain(tmp_path, 5)
    to = tmp_path / "updates"
    found = [kinds(export_updates(prefix, str(to), 2))[0][0] for prefix in prefixes]
    assert found == ["full", "delta", "delta", "full", "delta", "delta"]
    assert [name.rpartition(".")[2] for name in files(to)] == ["full", "delta", "delta"]
    assert kinds(export_updates(prefixes[-1], str(to), 2)) == []
    assert kinds(export_updates(prefixes[-1], str(to), 0)) == [("full", None, 6)]
    assert len(files(to)) == 1


def test_another_access_threshold_needs_a_full_update(tmp_path):
    content = first()
    one = checkpoints.save(tmp_path, 1, [content])
    policies = content.spec.policies._replace(access_threshold=4)
    two = checkpoints.save(tmp_path, 2, [delta_of(content, 1, policies=policies)], parent=one)
    export_updates(one, str(tmp_path / "updates"))
    assert kinds(export_updates(two, str(tmp_path / "updates"))) == [("full", None, 2)]


def test_checkpoints_of_several_ranks_become_one_update(tmp_path):
    content = first()
    full = save_of_ranks(tmp_path / "ranks", 1, 2, [content])
    prefix = save_of_ranks(tmp_path / "ranks", 2, 2, [delta_of(content, 0)], parent=full)
    one = checkpoints.save(tmp_path / "one", 1, [content])
    two = checkpoints.save(tmp_path / "one", 2, [delta_of(content, 0)], parent=one)
    found = []
    for prefixes in ((full, prefix), (one, two)):
        folder = tmp_path / "updates" / os.path.basename(os.path.dirname(prefixes[0]))
        assert [kinds(export_updates(each, str(folder)))[0][0] for each in prefixes] == ["full", "delta"]
        found.append([table_in(folder / name) for name in files(folder)])
    assert found[0] == found[1]


def test_a_damaged_update_is_followed_by_a_full_one(tmp_path):
    prefixes = chain(tmp_path, 1)
    to = tmp_path / "updates"
    export_updates(prefixes[0], str(to))
    for damage in (lambda content: b"", lambda content: bytes(200), lambda content: content[:150],
                   lambda content: content[:8] + b"\2" + content[9:],
                   lambda content: content[:40] + b"?" + content[41:]):
        name, = files(to)
        (to / name).write_bytes(damage((to / name).read_bytes()))
        assert kinds(export_updates(prefixes[1], str(to))) == [("full", None, 2)]
    name, = files(to)
    (to / name).rename(to / name.replace("update-0", "update-1"))
    assert kinds(export_updates(prefixes[1], str(to))) == [("full", None, 2)]


def test_files_of_killed_writers_are_removed_and_one_process_writes_at_a_time(tmp_path):
    prefixes = chain(tmp_path, 1)
    to = tmp_path / "updates"
    to.mkdir()
    (to / ".tmp-update-0000000000000001.full").write_bytes(b"half")
    export_updates(prefixes[0], str(to))
    assert sorted(os.listdir(str(to)))[:-1] == [".lock"]
    with disk.closing(disk.open_directory(str(to))) as fd, disk.closing(disk.open_file(fd, ".lock")) as lock:
        assert disk.try_lock(lock)
        with pytest.raises(UpdateNotExportedError, match=r"E532: .*another process is writing an update"):
            export_updates(prefixes[1], str(to))
    assert kinds(export_updates(prefixes[1], str(to))) == [("delta", 1, 2)]


def test_a_failed_write_leaves_no_file(tmp_path, monkeypatch):
    prefixes = chain(tmp_path, 1)
    to = tmp_path / "updates"
    export_updates(prefixes[0], str(to))
    before = checkpoints.tree_of(to)
    monkeypatch.setattr(disk, "sync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(UpdateNotExportedError, match=r"E532: .*No space left on device"):
        export_updates(prefixes[1], str(to))
    assert checkpoints.tree_of(to) == before


def test_checkpoints_that_cannot_be_exported_are_refused(tmp_path):
    to = str(tmp_path / "updates")
    with pytest.raises(NoCheckpointError):
        export_updates(str(tmp_path / "none-1"), to)
    with pytest.raises(NoCheckpointError):
        export_updates(str(tmp_path), to)
    with pytest.raises(CheckpointPathError):
        export_updates(str(tmp_path / "none-1"), "/etc/updates")
    with pytest.raises(UpdateNotExportedError, match="it was saved without a step"):
        export_updates(checkpoints.save(tmp_path / "stepless", None, [first()]), to)
    prefixes = chain(tmp_path, 1)
    export_updates(prefixes[0], to)
    (tmp_path / "delta-sparse-model.ckpt-2" / "user" / "key" / "slice.data").write_bytes(b"1234")
    with pytest.raises(DamagedCheckpointError):
        export_updates(prefixes[1], to)
    for name in ("MANIFEST.json", "PAIR.json", "ASCPIPE"):
        (tmp_path / "delta-sparse-model.ckpt-2" / name).unlink()
    with pytest.raises(UnverifiedCheckpointError):
        export_updates(prefixes[1], to)
    assert len(files(to)) == 1


def test_the_command_line_exports_updates(tmp_path):
    prefixes = chain(tmp_path, 1)
    to = str(tmp_path / "updates")
    found = CliRunner().invoke(main, ["checkpoint", "export-delta", prefixes[0], "--to", to])
    assert (found.exit_code, found.output.split("  ")[0]) == (0, "full"), found.output
    found = CliRunner().invoke(main, ["checkpoint", "export-delta", str(tmp_path), "--to", to, "--json"])
    told, = json.loads(found.output)
    assert (told["kind"], told["base_step"], told["step"]) == ("delta", 1, 2)
    assert told["path"] == os.path.join(to, files(to)[1])
    found = CliRunner().invoke(main, ["checkpoint", "export-delta", str(tmp_path), "--to", to])
    assert found.output == "{} has the rows of this checkpoint already\n".format(to)
    found = CliRunner().invoke(main, ["checkpoint", "export-delta", str(tmp_path / "none-3"), "--to", to])
    assert found.exit_code == 1
    assert "E520" in str(found.exception) + found.output
