"""A checkpoint that was changed is refused; one whose digests are right and whose content is not, too."""
import ast
import contextlib
import json
import os
import random
import re
import resource
import shutil

import numpy as np
import pytest

from ascpipe.checkpoint import reader, sealed_json, verify
from ascpipe.checkpoint.contents import Block, KeyBlock
from ascpipe.checkpoint.digests import digest_of
from ascpipe.checkpoint.errors import CheckpointError, DamagedCheckpointError, NoMemoryToReadError, NotRemovedError
from ascpipe.checkpoint.reader import open_checkpoint, open_keys, trained_batches
from ascpipe.checkpoint.retention import complete_checkpoints, remove_checkpoint
from ascpipe.shm import memory
from tests.support import checkpoints
from tests.support.checkpoints import content

CONTENTS = [content("user", 40, 6, pool_rows=3), content("item", 12, 0, slots=("ftrl_accum", "ftrl_linear"), seed=1)]
SMALL = [content("user", 9, 2, slots=("ftrl_accum",))]
SPARE = {"ASCPIPE"}  #: the marker says whose the directory is; it holds nothing


@pytest.fixture
def prefix(tmp_path):
    return checkpoints.save(tmp_path, 3, CONTENTS)


def files_of(prefix):
    folder = os.path.join(os.path.dirname(prefix), "sparse-" + os.path.basename(prefix))
    return folder, sorted(set(checkpoints.tree_of(folder)) - SPARE)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def write(path, data):
    # Not by "wb": where a file was emptied before, ext4 waits for the disk.
    with open(path, "r+b" if os.path.exists(path) else "wb") as file:
        file.write(data)
        file.truncate()


def flipped(data, dice):
    at = dice.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << dice.randrange(8))]) + data[at + 1:]


def truncated(data, dice):
    return data[:dice.randrange(len(data))]


def lengthened(data, dice):
    return data + bytes(dice.randrange(256) for _ in range(dice.choice([1, 8, 100])))


def overwritten(data, dice):
    at, length = dice.randrange(len(data)), dice.choice([1, 4, 8, 64])
    return data[:at] + bytes(dice.randrange(256) for _ in range(length)) + data[at + length:]


def moved(data, dice):
    at = dice.randrange(len(data))
    return data[at:] + data[:at]


def huge(data, dice):
    number = dice.choice([2 ** 63 - 1, -1, -2 ** 63, 2 ** 40, 0])
    at = dice.randrange(0, max(1, len(data) - 7), 8)
    return data[:at] + number.to_bytes(8, "little", signed=True) + data[at + 8:]


CHANGES = (flipped, truncated, lengthened, overwritten, moved, huge)


@pytest.mark.timeout_s(180)
@pytest.mark.parametrize("changes", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_no_change_of_any_file_is_accepted(tmp_path, seed, changes):
    prefix = checkpoints.save(tmp_path, 3, SMALL)
    dice = random.Random(seed)
    folder, names = files_of(prefix)
    whole = {name: read(os.path.join(folder, name)) for name in names}
    refused = 0
    while refused < changes:
        name = dice.choice(names)
        if dice.random() < 0.1:
            changed = whole[dice.choice(names)]  # one file in place of another
        elif whole[name]:
            changed = dice.choice(CHANGES)(whole[name], dice)
        else:
            changed = b"\0"
        if changed == whole[name]:
            continue
        path = os.path.join(folder, name)
        write(path, changed)
        with pytest.raises(DamagedCheckpointError) as caught:
            open_checkpoint(prefix, allow_unverified=True)
        assert "model.ckpt-3" in str(caught.value)
        write(path, whole[name])
        refused += 1
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, SMALL)


def test_no_file_can_be_missing(prefix):
    folder, names = files_of(prefix)
    for name in names:
        os.rename(os.path.join(folder, name), os.path.join(folder, "aside"))
        with pytest.raises(DamagedCheckpointError, match=os.path.basename(name)):
            open_checkpoint(prefix, allow_unverified=True)
        assert complete_checkpoints(os.path.dirname(prefix)) == []
        os.rename(os.path.join(folder, "aside"), os.path.join(folder, name))


def test_what_the_manifest_does_not_name_is_not_read(prefix):
    folder, _ = files_of(prefix)
    write(os.path.join(folder, "user", "key-emb.npy"), b"\x80\x03cos\nsystem\n.")
    shutil.copytree(os.path.join(folder, "user"), os.path.join(folder, "user2"))
    with open_checkpoint(prefix) as checkpoint:
        checkpoints.assert_holds(checkpoint, CONTENTS)


def test_the_sparse_part_of_one_checkpoint_and_the_dense_one_of_another_are_no_pair(tmp_path):
    one, other = (checkpoints.save(tmp_path, step, CONTENTS) for step in (1, 2))
    folder, other_folder = files_of(one)[0], files_of(other)[0]
    for name in ("PAIR.json", "MANIFEST.json", "user"):
        source, target = os.path.join(other_folder, name), os.path.join(folder, name)
        os.rename(target, target + ".aside")
        shutil.copytree(source, target) if os.path.isdir(source) else shutil.copy(source, target)
        if name != "user":  # whose content is the same in both
            with pytest.raises(DamagedCheckpointError):
                open_checkpoint(one)
        shutil.rmtree(target) if os.path.isdir(target) else os.unlink(target)
        os.rename(target + ".aside", target)
    open_checkpoint(one).close()


def test_all_of_the_sparse_part_of_another_checkpoint_of_the_same_name_is_no_pair_with_the_dense_one(tmp_path):
    one = checkpoints.save(tmp_path / "one", 1, [content("user", 9)])
    other = checkpoints.save(tmp_path / "other", 1, [content("user", 9, seed=1)])
    (folder, names), (other_folder, other_names) = files_of(one), files_of(other)
    assert names == other_names
    for name in set(names) - {"PAIR.json"}:
        shutil.copy(os.path.join(other_folder, name), os.path.join(folder, name))
    with pytest.raises(DamagedCheckpointError, match="E522.*MANIFEST.json: it differs from the file that PAIR"):
        open_checkpoint(one)


def test_a_checkpoint_under_another_name_is_refused_by_all_that_read_it(tmp_path):
    prefix = checkpoints.save(tmp_path, 120, SMALL)
    folder, _ = files_of(prefix)
    for name in ("model.ckpt-999", "model.ckpt", "other-120"):
        shutil.copytree(folder, str(tmp_path / ("sparse-" + name)))
        moved = str(tmp_path / name)
        for look in (open_checkpoint, trained_batches):
            with pytest.raises(DamagedCheckpointError, match="under the name 'model.ckpt-120'.*another directory"):
                look(moved)
        with pytest.raises(NotRemovedError):
            remove_checkpoint(moved)
    assert [found.prefix for found in complete_checkpoints(str(tmp_path))] == [prefix]
    open_checkpoint(prefix).close()
    shutil.copytree(str(tmp_path), str(tmp_path / "other"))
    open_checkpoint(str(tmp_path / "other" / "model.ckpt-120")).close()


def resealed(prefix, change):
    """Change the content of the manifest, and seal it and the pair anew."""
    folder, _ = files_of(prefix)
    manifest = sealed_json.decoded(read(os.path.join(folder, "MANIFEST.json")))
    change(manifest, folder)
    record = json.dumps(manifest)
    try:
        record = sealed_json.encoded(manifest)
    except ValueError:
        record = record.encode()
    write(os.path.join(folder, "MANIFEST.json"), record)
    pair = sealed_json.decoded(read(os.path.join(folder, "PAIR.json")))
    pair["manifest"] = digest_of(record)
    write(os.path.join(folder, "PAIR.json"), sealed_json.encoded(pair))


def values_in(node, path=()):
    """Paths of all values of a JSON document."""
    children = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, child in children:
        yield path + (name,)
        yield from values_in(child, path + (name,))


INSANE = (None, -1, 2 ** 63 - 1, 2 ** 63, -2 ** 63, 10 ** 19, 0, True, 1.5, float("inf"), float("nan"), "", "..",
          "../x", "/etc/passwd", "a/b", "x" * 300, "a\0b", "\x1b[31m", "t\u00e4ble", "\ud800", [], {}, [[]], {"": {}})


@pytest.mark.timeout_s(120)
def test_a_manifest_that_is_insane_and_sealed_is_an_error_with_a_code_or_harmless(prefix, seed):
    dice = random.Random(seed)
    folder, _ = files_of(prefix)
    records = {name: read(os.path.join(folder, name)) for name in ("MANIFEST.json", "PAIR.json")}
    paths = list(values_in(sealed_json.decoded(records["MANIFEST.json"])))
    refused = 0
    for _ in range(500):
        path, value = dice.choice(paths), dice.choice(INSANE)

        def change(manifest, folder, path=path, value=value):
            node = manifest
            for name in path[:-1]:
                node = node[name]
            if isinstance(path[-1], str) and dice.random() < 0.2:
                node[str(value)] = node.pop(path[-1])
            else:
                node[path[-1]] = value

        resealed(prefix, change)
        try:
            with open_checkpoint(prefix) as checkpoint:
                for name in checkpoint.tables:
                    list(checkpoint.blocks(name))
        except CheckpointError as error:
            assert "\x1b" not in str(error) and "\0" not in str(error)
            refused += 1
        for name, record in records.items():
            write(os.path.join(folder, name), record)
    assert refused > 400


HUGE = ("x" * 20_000, list(range(20_000)), {"x" * 20_000: "x" * 20_000}, 10 ** 19)


def test_no_content_of_a_manifest_makes_a_long_error(prefix):
    folder, _ = files_of(prefix)
    records = {name: read(os.path.join(folder, name)) for name in ("MANIFEST.json", "PAIR.json")}
    for number, path in enumerate(values_in(sealed_json.decoded(records["MANIFEST.json"]))):
        value = HUGE[number % len(HUGE)]

        def change(manifest, folder, path=path, value=value):
            node = manifest
            for name in path[:-1]:
                node = node[name]
            node[path[-1]] = value

        resealed(prefix, change)
        try:
            open_checkpoint(prefix).close()
        except CheckpointError as error:
            while error is not None:
                assert len(str(error)) < 1500, (path, str(error)[:300])
                error = error.__cause__
        for name, record in records.items():
            write(os.path.join(folder, name), record)


def insane_data(folder_name, values):
    """Other values in a folder of table user, with digests that are right."""
    def change(manifest, folder):
        data = np.asarray(values).tobytes()
        write(os.path.join(folder, "user", folder_name, "slice.data"), data)
        saved = next(table for table in manifest["tables"] if table["spec"]["name"] == "user")["data"][folder_name]
        saved.update(bytes=len(data), digest=digest_of(data))
    return change


BLOCK: Block = CONTENTS[0].block


@pytest.mark.parametrize("folder, values, text", [
    ("key", np.concatenate([BLOCK.keys[:-1], BLOCK.keys[:1]]), "key -9223372036854775808 occurs twice"),
    ("candidate_key", np.concatenate([CONTENTS[0].candidates.keys[:-1], BLOCK.keys[5:6]]), "occurs twice"),
    ("count", -BLOCK.counts, "is below 0"), ("timestamp", BLOCK.timestamps - 2 ** 40, "is below 0"),
    ("key", BLOCK.keys[:-1], "key has 312 bytes, but its spec needs 320"),
    ("embedding", BLOCK.rows, "embedding has 1440 bytes, but its spec needs 640"),
])
def test_data_that_makes_no_sense_is_an_error_although_its_digest_is_right(prefix, folder, values, text):
    resealed(prefix, insane_data(folder, values))
    with pytest.raises(DamagedCheckpointError, match=text):
        open_checkpoint(prefix)


@pytest.mark.parametrize("version", [1, 4])
def test_another_version_of_the_format_says_so(prefix, version):
    resealed(prefix, lambda manifest, folder: manifest.update(version=version))
    text = "has version {}".format(version)
    with pytest.raises(DamagedCheckpointError, match=text + ", but this ascpipe reads version 2 and 3"):
        open_checkpoint(prefix)
    with pytest.raises(DamagedCheckpointError, match=text):
        trained_batches(prefix)


@pytest.mark.parametrize("record", [
    b"", b"{}", b"[" * 100000, b'{"seal":' * 50000, b"9" * 1000, b'{"seal": ' + b"9" * 5000 + b"}", b"\xff",
    b'{"a":1,"a":1,"seal":""}', b"nan", b'{"seal": NaN}'])
@pytest.mark.parametrize("name", ["PAIR.json", "MANIFEST.json"])
@pytest.mark.each_value
def test_a_record_that_is_none_is_an_error_and_no_crash(prefix, name, record):
    write(os.path.join(files_of(prefix)[0], name), record)
    with pytest.raises(DamagedCheckpointError, match=name):
        open_checkpoint(prefix)


def test_a_record_of_any_length_is_not_read(prefix):
    path = os.path.join(files_of(prefix)[0], "MANIFEST.json")
    os.truncate(path, (16 << 20) + 1)
    with pytest.raises(DamagedCheckpointError, match="expected at most 16777216"):
        open_checkpoint(prefix)


def test_a_file_that_changed_after_it_was_verified_is_not_read(prefix):
    folder, _ = files_of(prefix)
    path = os.path.join(folder, "user/embedding/slice.data")
    with open_checkpoint(prefix) as checkpoint:
        os.utime(path, ns=(1, 1))
        with pytest.raises(DamagedCheckpointError, match="has changed since it was verified"):
            list(checkpoint.blocks("user"))
        assert list(checkpoint.blocks("item"))


def test_a_checkpoint_that_is_open_is_read_to_its_end_while_another_takes_its_name(prefix, tmp_path):
    with open_checkpoint(prefix) as checkpoint:
        blocks = checkpoint.blocks("item", block_rows=5)
        first = next(blocks)
        checkpoints.save(tmp_path, 3, [content("item", 12, 0, slots=("ftrl_accum", "ftrl_linear"), seed=9)])
        assert checkpoints.by_key([first, *blocks]) == checkpoints.by_key([CONTENTS[1].block])
    assert reader.open_checkpoint(prefix).close() is None


def limited(prefix, spare_bytes):
    """Return the number of keys, or the error text, of a process that may map only ``spare_bytes`` more memory."""
    def work():
        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + spare_bytes, mapped + spare_bytes))
        try:
            with open_checkpoint(prefix) as checkpoint:
                return sum(len(block.keys) for name in checkpoint.tables for block in checkpoint.blocks(name))
        except CheckpointError as error:
            return str(error)
        except (MemoryError, RuntimeError) as error:
            return repr(error)

    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):  # else the child would run what follows here
            os.write(send, repr(work()).encode()[:4000])
        os._exit(0)
    os.close(send)
    os.waitpid(child, 0)
    with open(receive) as file:
        return ast.literal_eval(file.read())


def test_too_little_memory_is_an_error_with_need_and_limit_wherever_it_runs_out(tmp_path):
    count = 1 << 22
    large = content("user", 4, 1, dim=1, slots=())
    block = Block(np.random.RandomState(1).permutation(count), np.zeros([count, 1], np.float32),
                  *np.zeros([2, count], np.int64))
    large = checkpoints.Content(large.spec._replace(rows=count, candidates=0), block, KeyBlock(*np.zeros([3, 0], int)))
    prefix = checkpoints.save(tmp_path, 1, [large], block_rows=count)
    outcomes = {spare: limited(prefix, spare << 20) for spare in (0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 1000)}
    refused = [outcome for outcome in outcomes.values() if outcome != count]
    assert outcomes[1000] == count and len(refused) >= 4, outcomes
    said = re.compile(r"E528: Checkpoint .*model.ckpt-1 cannot be read: .* need \d+ bytes .*\. Available: .*"
                      r"the address space of this process is limited to \d+\.\d\d GiB")
    assert not [text for text in refused if not said.match(text)], outcomes


def test_keys_that_do_not_fit_are_refused_before_they_are_read(prefix, monkeypatch):
    room = memory.Room(100 << 20, 1 << 30, "the machine has 0.10 GiB available")
    monkeypatch.setattr(memory, "_limits", lambda places: [room])
    monkeypatch.setattr(verify, "INT_BYTES", 4 << 20)  # as if there were a million times as many keys
    for opened in (open_checkpoint, open_keys):
        with pytest.raises(NoMemoryToReadError, match="the keys of table 'user' need 192937984 bytes .*has 0.10 GiB"):
            opened(prefix)
