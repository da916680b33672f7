"""Checkpoints for tests: tables of random content, saved and compared."""
import contextlib
import os

import numpy as np

from ascpipe.checkpoint.contents import (
    Block,
    InitialRows,
    KeyBlock,
    Link,
    Policies,
    Position,
    SlotSpec,
    TablePosition,
    TableSpec,
)
from ascpipe.checkpoint.tree import open_tree
from ascpipe.checkpoint.writer import CheckpointWriter

INT64 = np.iinfo(np.int64)


class Content:
    """A table and what it holds: spec, one Block, one KeyBlock, its pool or None, deleted keys or None."""

    def __init__(self, spec, block, candidates, pool=None, deleted=None):
        self.spec, self.block, self.candidates, self.pool, self.deleted = spec, block, candidates, pool, deleted


def content(name="user", rows=20, candidates=5, *, dim=4, slots=("LazyAdam_momentum", "LazyAdam_velocity"), seed=0,
            pool_rows=0):
    """A table of random content; its first keys are those at the ends of int64, and 0."""
    random = np.random.RandomState(seed)
    keys = np.unique(np.concatenate([
        np.array([INT64.min, INT64.max, 0, -1], np.int64),
        random.randint(INT64.min, INT64.max, 2 * (rows + candidates) + 8, np.int64)]))
    keys = np.concatenate([keys[:1], random.permutation(keys[1:])])[:rows + candidates]
    widths = tuple(SlotSpec(slot, dim if index != 1 else 1, 0.5 * index) for index, slot in enumerate(slots))
    initial = InitialRows(seed=(1 << 64) - 1 - seed, kind=4 if pool_rows else 2, a=0.25, b=1e-3, scale=1.5,
                          pool_rows=pool_rows)
    spec = TableSpec(name, dim, "int64", widths, rows, candidates, initial, Policies(3, True, 2, 60, 1700000000))
    block = Block(keys[:rows], random.randn(rows, spec.row_floats).astype(np.float32),
                  random.randint(0, 1 << 40, rows, np.int64), random.randint(0, 1 << 33, rows, np.int64))
    others = KeyBlock(keys[rows:], random.randint(0, 9, candidates, np.int64),
                            random.randint(0, 1 << 33, candidates, np.int64))
    return Content(spec, block, others, random.randn(pool_rows, dim).astype(np.float32) if pool_rows else None)


def position(contents, batches=7):
    """A position of these tables."""
    tables = {one.spec.name: TablePosition(batches - 1, 2) for one in contents}
    return Position("run-{}".format(batches), tables, {"train 'é'": batches})


def sliced(block, rows):
    """A block as several of at most ``rows`` keys."""
    return [type(block)(*(values[start:start + rows] for values in block)) for start in range(0, len(block[0]), rows)]


def write_dense(writer, text):
    """Files such as TensorFlow writes."""
    for suffix in (".index", ".data-00000-of-00001", ".meta"):
        with open(writer.dense_prefix + suffix, "w") as file:
            file.write(text + suffix)


@contextlib.contextmanager
def writing(directory, base, step, specs, parent=None, progress=None):
    """A writer that waits for these tables."""
    with CheckpointWriter(str(directory), base, step, progress) as writer:
        writer.begin_tables(specs, parent)
        yield writer


def save(directory, step, contents, *, base="model.ckpt", block_rows=7, dense=None, progress=None, parent=None):
    """Save these tables; the prefix. With the prefix of a ``parent``: as a delta upon it."""
    parent = None if parent is None else link_to(parent)
    with writing(directory, base, step, [one.spec for one in contents], parent, progress) as writer:
        for one in contents:
            blocks, candidates = sliced(one.block, block_rows), sliced(one.candidates, block_rows)
            writer.write_table(one.spec.name, blocks, candidates, one.pool, one.deleted)
        write_dense(writer, "dense of step {}".format(step) if dense is None else dense)
        return writer.commit(position(contents, batches=7 if step is None else step + 1))


def link_to(prefix):
    """What a delta upon this checkpoint has as its parent."""
    tree = open_tree(prefix)
    try:
        return Link(tree.place.stem, tree.records().pair.manifest)
    finally:
        tree.close()


def by_key(blocks):
    """key -> bytes of all that belongs to it; an error if a key comes twice."""
    found = {}
    for block in blocks:
        for index, key in enumerate(block.keys.tolist()):
            assert key not in found
            found[key] = tuple(values[index].tobytes() for values in block[1:])
    return found


def assert_holds(checkpoint, contents):
    """The checkpoint has these tables and nothing else."""
    assert [one.spec for one in contents] == list(checkpoint.tables.values())
    for one in contents:
        name = one.spec.name
        assert by_key(checkpoint.blocks(name, block_rows=6)) == by_key([one.block])
        assert by_key(checkpoint.candidates(name)) == by_key([one.candidates])
        pool = checkpoint.pool(name)
        assert (pool is None) == (one.pool is None) and (pool is None or np.array_equal(pool, one.pool))


def tree_of(directory):
    """path -> content of every file below a directory, by its relative path; of a link, where it leads."""
    found = {}
    for folder, folders, files in os.walk(str(directory)):
        for name in files + [name for name in folders if os.path.islink(os.path.join(folder, name))]:
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[os.path.relpath(path, str(directory))] = os.readlink(path)
            else:
                with open(path, "rb") as file:
                    found[os.path.relpath(path, str(directory))] = file.read()
    return found
