"""Conversion of variables in a checkpoint of TensorFlow to tables (docs/how-to/tensorflow_checkpoints.md)."""
import hashlib
import os
import uuid
from typing import Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ascpipe.checkpoint.contents import InitialRows, PartedBlock, Policies, Position, SlotSpec, TablePosition, TableSpec
from ascpipe.checkpoint.errors import NotConvertedError, NotSavedError
from ascpipe.checkpoint.paths import TABLE_NAME
from ascpipe.checkpoint.tree import why
from ascpipe.checkpoint.writer import CheckpointWriter
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown
from ascpipe.layout.initial_kinds import CONSTANT
from ascpipe.rows import tensorflow_names
from ascpipe.rows.bundle_format import Entry, key_of
from ascpipe.rows.bundles import FLOAT32, Bundle, BundleWriter, Piece, tiles
from ascpipe.rows.export import Progress
from ascpipe.rows.free_names import Name, free_name
from ascpipe.rows.newest import note_newest
from ascpipe.rows.vocabularies import IDENTITY, Keys, Lookup, check_kind, keys_of

DIV = "div"
MOD = "mod"
_PART_BYTES = 4 << 20
_NO_POLICIES = Policies(-1, counting=False, faae_coefficient=1, eviction_threshold=-1, time=0)


class Variable(NamedTuple):
    """Variable that becomes a table.

    Attributes:
        name: name in the checkpoint of TensorFlow.
        table: name of the table.
        keys: ``identity``, ``hash_bucket`` or ``vocabulary:FILE``.
        partition_strategy: ``div`` or ``mod``, the argument of ``embedding_lookup`` for partitioned variables; or None.
    """

    name: str
    table: str
    keys: str = IDENTITY
    partition_strategy: Optional[str] = None


class Request(NamedTuple):
    """Parameters of a conversion.

    Attributes:
        checkpoint: ``dir/base-step`` of a checkpoint that TensorFlow's Saver wrote. It is not changed.
        variables: variables that become tables.
        to: ``dir/base-step`` of the new checkpoint.
    """

    checkpoint: str
    variables: Sequence[Variable]
    to: str


class TakenOver(NamedTuple):
    """Result of a conversion.

    Attributes:
        checkpoint: ``dir/base-step`` of the new checkpoint.
        tables: name of each table -> number of rows.
        slots: name of each table -> names of its optimizer slots.
        variables: names of the variables that were copied.
    """

    checkpoint: str
    tables: Mapping[str, int]
    slots: Mapping[str, Sequence[str]]
    variables: Sequence[str]


class Source(NamedTuple):
    """Location of the rows and slots of a future table in a checkpoint of TensorFlow.

    Attributes:
        variable: name of the variable.
        spec: spec of the table.
        arrays: pieces of the variable, and of each slot in the order of the spec.
        keys: keys of the rows.
        slots: names of TensorFlow's slots.
    """

    variable: str
    spec: TableSpec
    arrays: Sequence[Sequence[Piece]]
    keys: Keys
    slots: Sequence[str]


def taken_over(request: Request, progress: Optional[Progress] = None) -> TakenOver:
    """Convert a checkpoint that TensorFlow's Saver wrote to a new checkpoint with tables. TensorFlow is not needed.

    Args:
        progress: called after each block of rows with (rows written so far, total number of rows).

    Raises:
        ArgumentError: an argument is not allowed.
        NotConvertedError: a variable is missing, or cannot become a table.
        CheckpointError: the checkpoint is missing or damaged, or the new checkpoint cannot be written.
    """
    _check(request)
    place = free_name(request.to)
    with Bundle(request.checkpoint) as bundle:
        sources = [source_of(bundle, variable) for variable in request.variables]
        prefix, dense = written(bundle, sources, tensorflow_names.aliases(bundle.tensors), place, progress)
    note_newest(place)
    return TakenOver(prefix, {one.spec.name: one.spec.rows for one in sources},
                     {one.spec.name: [slot.name for slot in one.spec.slots] for one in sources}, dense)


def written(bundle: Bundle, sources: Sequence[Source], aliases: Mapping[str, str], place: Name,
            progress: Optional[Progress] = None) -> Tuple[str, List[str]]:
    """Write a checkpoint with tables. Return the prefix of the checkpoint and the names of the copied variables.

    In the new checkpoint, the variables that became tables have 0 rows, as in a program with feature columns.

    Args:
        aliases: second names of variables, as new name -> name.

    Raises:
        CheckpointError: the checkpoint of TensorFlow is damaged, or the new checkpoint cannot be written.
    """
    bundle.verify()
    taken = {name for one in sources for name in (one.variable, *one.slots)}
    dense = [name for name in bundle.tensors if name not in taken]
    specs = [one.spec for one in sources]
    done = 0
    total = sum(spec.rows for spec in specs)
    with CheckpointWriter(*place) as writer:
        try:
            folder, stem = os.path.split(writer.dense_prefix)
            _write_dense(bundle, BundleWriter(folder, stem), dense, sources, aliases)
        except OSError as error:
            raise NotSavedError(writer.prefix, why(error), 0, 0, "Nothing was left behind.") from error
        writer.begin_tables(specs)
        for one in sources:
            blocks = blocks_of(bundle, one)

            def told(blocks: Iterator[PartedBlock] = blocks) -> Iterator[PartedBlock]:
                nonlocal done
                for block in blocks:
                    yield block
                    done += len(block.keys)
                    if progress is not None:
                        progress(done, total)

            writer.write_table(one.spec.name, told())
        bundle.check_unchanged()
        position = Position("taken-over-" + uuid.uuid4().hex, {spec.name: TablePosition(-1, 0) for spec in specs}, {})
        return writer.commit(position), dense


def _write_dense(bundle: Bundle, writer: BundleWriter, dense: Sequence[str], sources: Sequence[Source],
                 aliases: Mapping[str, str]) -> None:
    with writer:
        for name in dense:
            writer.copy(bundle, name)
        for one in sources:
            writer.end(key_of(one.variable), Entry(FLOAT32, (0, one.spec.dim)))
        for new, old in aliases.items():
            writer.alias(new, old)
        writer.finish()


def blocks_of(bundle: Bundle, source: Source) -> Iterator[PartedBlock]:
    """Yield the rows of a table."""
    spec = source.spec
    widths = [spec.dim, *(slot.width for slot in spec.slots)]
    step = max(1, _PART_BYTES // (4 * spec.row_floats))
    for first in range(0, spec.rows, step):
        count = min(step, spec.rows - first)
        zeros = np.zeros(count, np.int64)
        yield PartedBlock(source.keys(first, count), tuple(
            bundle.rows(pieces, first, count, width) for pieces, width in zip(source.arrays, widths)), zeros, zeros)


def source_of(bundle: Bundle, variable: Variable, spec: Optional[TableSpec] = None) -> Source:
    """Find the rows and slots of a future table in a checkpoint of TensorFlow.

    Args:
        spec: spec of the table in the program, whose slots must be in the checkpoint; or None to take all slots of the
            checkpoint.

    Raises:
        NotConvertedError: the variable is missing or cannot become a table.
    """
    entry = bundle.tensors.get(variable.name)
    if entry is None:
        raise _refused(bundle, variable.name, "it is not in the checkpoint. The checkpoint has {}".format(
            shown(sorted(bundle.tensors))))
    rows, dim = _rows_and_dim(bundle, variable.name, entry)
    slots = tensorflow_names.slots_of(variable.name, bundle.tensors)
    arrays = [_pieces(bundle, [variable.name], entry.shape)]
    found = spec if spec is not None else _spec(variable.table, rows, dim, slots, bundle)
    names = _chosen(bundle, variable.name, slots, found)
    arrays.extend(_pieces(bundle, slots[name], bundle.tensors[slots[name][0]].shape) for name in names)
    for name, slot in zip(names, found.slots):
        width = _rows_and_dim(bundle, slots[name][0], bundle.tensors[slots[name][0]])[1]
        if width != slot.width:
            raise _refused(bundle, slots[name][0], "it has rows of {} floats, but the slot {} of table {!r} has "
                           "{}".format(width, slot.name, found.name, slot.width))
    if found.dim != dim:
        raise _refused(bundle, variable.name, "it has rows of {} floats, but table {!r} has {}".format(
            dim, found.name, found.dim))
    keys = keys_of(variable.keys, Lookup(bundle.prefix, variable.name, rows, _mod_parts(bundle, variable, arrays[0])))
    return Source(variable.name, found._replace(rows=rows, candidates=0, deleted=0), arrays, keys,
                  [name for parts in slots.values() for name in parts])


def _chosen(bundle: Bundle, variable: str, slots: Mapping[str, Sequence[str]], spec: TableSpec) -> List[str]:
    """For each slot in a table's spec, return the name of the corresponding slot of TensorFlow."""
    known = {tensorflow_names.table_slot(name).name: name for name in slots}
    names = [slot.name for slot in spec.slots]
    if set(names) <= set(known):
        return [known[name] for name in names]
    if len(slots) == len(names):  # the optimizer has another name: the slots are name, name_1 and so on
        return sorted(slots, key=lambda name: (len(name), name))
    raise _refused(bundle, variable, "the table {!r} has the optimizer slots {}, but the checkpoint has {}. Use the "
                   "optimizer that trained the checkpoint".format(
                       spec.name, ", ".join(names) or "(none)", ", ".join(sorted(slots)) or "(none)"))


def _spec(table: str, rows: int, dim: int, slots: Mapping[str, Sequence[str]], bundle: Bundle) -> TableSpec:
    specs = []
    for name, parts in slots.items():
        slot = tensorflow_names.table_slot(name)
        width = _rows_and_dim(bundle, parts[0], bundle.tensors[parts[0]])[1]
        specs.append(SlotSpec(slot.name, width, slot.initial))
    seed = int.from_bytes(hashlib.blake2b(table.encode(), digest_size=8).digest(), "big")
    return TableSpec(table, dim, "int64", tuple(specs), rows, 0, InitialRows(seed, CONSTANT, 0.0, 0.0, 1.0),
                     _NO_POLICIES)


def _rows_and_dim(bundle: Bundle, name: str, entry: Entry) -> Tuple[int, int]:
    if entry.dtype != FLOAT32 or len(entry.shape) not in (1, 2):
        raise _refused(bundle, name, "it has the type {} and the shape {}, and a table needs float32 (type {}) and "
                       "[rows, dim] or [rows]".format(entry.dtype, list(entry.shape), FLOAT32))
    rows, *dim = entry.shape
    if rows == 0 or 0 in dim:
        raise _refused(bundle, name, "it has no rows, so it is the variable of a feature column whose rows are in a "
                       "table already")
    return rows, dim[0] if dim else 1


def _pieces(bundle: Bundle, names: Sequence[str], shape: Sequence[int]) -> List[Piece]:
    """Return the pieces of the tensors ``names``, which together contain one variable or slot."""
    pieces = [piece for name in names for piece in bundle.pieces(name)]
    for name in names:
        if bundle.tensors[name].shape != tuple(shape):
            raise _refused(bundle, name, "it has the shape {}, but {!r} has {}".format(
                list(bundle.tensors[name].shape), names[0], list(shape)))
    reason = tiles(pieces, shape)
    if reason is not None:
        raise _refused(bundle, ", ".join(names), reason)
    return pieces


def _mod_parts(bundle: Bundle, variable: Variable, pieces: Sequence[Piece]) -> List[int]:
    """Return the number of rows in each part of a variable with the partition strategy "mod", or an empty list for
    other variables.
    """
    parts = [piece.shape[0] for piece in sorted(pieces, key=lambda piece: piece.start)]
    is_parted = len(pieces) > 1 and any(piece.start[0] > 0 for piece in pieces)
    if not is_parted or variable.partition_strategy == DIV:
        return []
    if variable.partition_strategy is None:
        raise _refused(bundle, variable.name, "it has {} parts, and the row of an id depends on the argument "
                       "partition_strategy of embedding_lookup. Pass partition_strategy 'mod', the default of "
                       "embedding_lookup, or 'div', which feature columns use".format(len(pieces)))
    if any(len(piece.shape) > 1 and piece.start[1] > 0 for piece in pieces):
        raise _refused(bundle, variable.name, "its rows are split into parts in both dimensions")
    return parts


def _check(request: Request) -> None:
    tables = [variable.table for variable in request.variables]
    names = [variable.name for variable in request.variables]
    if not tables:
        raise ArgumentError("No variable was passed. Nothing was read or written. Pass the name of a variable and of "
                            "its table")
    for variable in request.variables:
        check_kind(variable.keys)
        if not TABLE_NAME.match(variable.table):
            raise ArgumentError("The name {} of a table is not allowed. Nothing was read or written. Pass 1 to 100 "
                                "letters, digits or underscores".format(shown(variable.table)))
        if variable.partition_strategy not in (None, DIV, MOD):
            raise ArgumentError("partition_strategy={} is not allowed. Nothing was read or written. Pass 'div' or "
                                "'mod'".format(shown(variable.partition_strategy)))
    for what, given in (("variable", names), ("table", tables)):
        twice = [name for number, name in enumerate(given) if name in given[:number]]
        if twice:
            raise ArgumentError("The {} {} was passed twice. Nothing was read or written. Pass each name once".format(
                what, shown(twice[0])))


def _refused(bundle: Bundle, name: str, reason: str) -> NotConvertedError:
    return NotConvertedError(bundle.prefix, repr(name), reason)
