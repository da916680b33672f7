"""``create_table`` of ``mx_rec``, which creates a sparse table and a variable for its device rows."""
import inspect
import logging
import os
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np
import tensorflow as tf

from ascpipe.checkpoint.paths import TAKEN_NAMES
from ascpipe.disk.row_engine import MEMORY, RowEngineError, create_file
from ascpipe.errors import ArgumentError, CallOrderError, TableError
from ascpipe.errors.base import shown
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.features import TABLE_NAME_PATTERN, clean_table_name
from ascpipe.tf.graph.graph_state import REBUILD_ADVICE, GraphState
from ascpipe.tf.graph.rewiring import outside_scopes
from ascpipe.tf.graph.sparse_table import Table
from ascpipe.tf.program.row_initializers import how_to_start_with_rows, is_initializer, row_initializer
from ascpipe.tf.running import native
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import MAX_VOCABULARY, NO_TABLE, TableShape
from ascpipe.tf.validation import (
    AnyOf,
    Choice,
    Float,
    Integer,
    ListOf,
    PathText,
    Rule,
    Text,
    boolean,
    checked,
    ignore,
    wrong_type,
)

_log = logging.getLogger(__name__)

MAX_DIM = 8192

#: Rec SDK uses this prefix for merged tables.
_RESERVED_PREFIX = "mergeable_table"


class _Initializer(Rule):
    def _check(self, name: str, value: Any) -> None:
        if is_initializer(value):
            return
        expected = "an instance of a TF1 or TF2 initializer class"
        if isinstance(value, (np.ndarray, tf.Tensor, tf.Variable, list, tuple)):
            # The values of a whole matrix would hide the advice.
            raise ArgumentError("Invalid parameter type of parameter {}: {}{} is no initializer, expected {}. Rows "
                                "belong to keys, so a matrix has no place in a table. {}".format(
                                    name, type(value).__name__, " of shape {}".format(list(value.shape)) if isinstance(
                                        value, np.ndarray) else "", expected, how_to_start_with_rows()))
        raise wrong_type(name, value, expected)


class _Dim(Rule):
    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, tf.TensorShape):
            if value.rank != 1 or value[0].value is None:
                raise wrong_type(name, value, "an int or a TensorShape of one number")
            value = value[0].value
        Integer(1, MAX_DIM).check(name, value)


class _TableName(Text):
    def _check(self, name: str, value: Any) -> None:
        super()._check(name, value)
        if not TABLE_NAME_PATTERN.match(value):
            raise ArgumentError("argument {}: {} contains characters other than 0-9 A-Z a-z _ and .".format(
                name, shown(value)))


INITIALIZER = _Initializer()
_VOCABULARY = Integer(0, MAX_VOCABULARY)


@checked(key_dtype=Choice(tf.int64, tf.int32), dim=_Dim(), name=_TableName(1, 100), emb_initializer=INITIALIZER,
         device_vocabulary_size=Integer(1, MAX_VOCABULARY), host_vocabulary_size=_VOCABULARY,
         ssd_vocabulary_size=_VOCABULARY, ssd_data_path=ListOf(PathText(1, 4096)), is_save=boolean(), is_dp=boolean(),
         init_param=Float(-10.0, 10.0),
         all2all_gradients_op=Choice("sum_gradients", "sum_gradients_and_div_by_ranksize"), enable_merge=boolean(),
         padding_keys=AnyOf(Integer(-2 ** 63, 2 ** 63 - 1), ListOf(Integer(-2 ** 63, 2 ** 63 - 1)), optional=True),
         padding_keys_mask=boolean(), padding_keys_len=Integer(1, optional=True), value_dtype=Choice(tf.float32),
         shard_num=Integer(1, 8192), fusion_optimizer_var=boolean(), hashtable_threshold=Integer(0))
def create_table(key_dtype: tf.DType, dim: Union[int, tf.TensorShape], name: str, emb_initializer: Any,
                 device_vocabulary_size: int = 1, host_vocabulary_size: int = 0, ssd_vocabulary_size: int = 0,
                 ssd_data_path: Sequence[str] = (os.curdir,), is_save: bool = True, is_dp: bool = False,
                 init_param: float = 1.0, all2all_gradients_op: str = "sum_gradients", enable_merge: bool = False,
                 padding_keys: Union[int, List[int], None] = None, padding_keys_mask: bool = False,
                 padding_keys_len: Optional[int] = None, value_dtype: tf.DType = tf.float32, shard_num: int = 1,
                 fusion_optimizer_var: bool = True, hashtable_threshold: int = 0, **older: Any) -> Table:
    """Create a sparse table in the default graph.

    If the running pipeline already has a table with this name, the two tables share their rows, and must have the same
    sizes, dim and key_dtype. A table with a new name is added to the running pipeline.

    Args:
        key_dtype: tf.int64 or tf.int32.
        dim: length of a row in [1, 8192], an int or a TensorShape with one dimension.
        name: 1 to 100 characters from 0-9, A-Z, a-z, underscore and dot. ascpipe removes the dots. The resulting name
            must be unique.
        emb_initializer: a TF1 or TF2 initializer object. The initial row of a key depends only on the key and the seed.
            The default seed is computed from the table's name and the graph's seed. For initializers other than
            constant, uniform, normal and variance scaling, ``create_table`` samples a pool of rows. The hash of a key
            selects the initial row from the pool.
        device_vocabulary_size: rows on the device, in [1, 1e9]. The size must be at least the number of distinct keys
            of a batch. Without host rows, the size is the maximum number of keys.
        host_vocabulary_size: maximum number of keys, in [0, 1e9]. Each key has a row in host memory, with its optimizer
            slots. With 0, rows are only on the device. Any other value must be at least ``device_vocabulary_size``.
            With several ranks, the three sizes are totals over ranks. In dynamic expansion mode, the three sizes have
            no effect, because the table grows.
        ssd_vocabulary_size: additional rows on disk, in [0, 1e9]. A row is read into host memory before the step that
            needs it. Rows are written to disk if host memory has no free row.
        ssd_data_path: directories for rows on disk, each on a different disk. The files are not visible in the
            directories, and are deleted at the end of the run.
        init_param: factor of the initial values, in [-10, 10].
        padding_keys: int or list of ints, keys whose rows are never updated. ``padding_keys_mask=True`` and
            ``padding_keys_len`` are then required. The value of ``padding_keys_len`` has no effect.
        enable_merge: checked, but has no effect, because tables are never merged.
        is_dp: has no effect. Each rank has a shard of every table, and training has the same result as with full
            copies.
        all2all_gradients_op: selects the sum or the average over ranks as the gradient of a row.
        shard_num: checked, but has no effect.
        fusion_optimizer_var: checked, but has no effect.
        hashtable_threshold: checked, but has no effect.
        older: arguments of other versions, such as ``optimizer_list`` and ``mode``. They are ignored with a warning.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or the name is taken or reserved.
        EnvironmentError: ``init`` was not called, or ``start_asc_pipeline`` was already called for this graph.
        RuntimeError: ``enable_merge`` is True without dynamic expansion mode.
        TypeError: an argument is unknown, and its name is similar to a known argument.
    """
    process = Process.current()
    ignore("create_table", _ARGUMENTS, older)
    expands = process.configuration.use_dynamic_expansion
    if expands:
        device_vocabulary_size = host_vocabulary_size = ssd_vocabulary_size = 0
    ranks = process.configuration.rank_size
    _require_consistent(name, device_vocabulary_size, host_vocabulary_size, ssd_vocabulary_size)
    _require_padding(name, padding_keys, padding_keys_mask, padding_keys_len, is_dp)
    if enable_merge and not expands:
        raise TableError("Table {!r} has enable_merge=True, which requires dynamic expansion mode: "
                         "asc.init(use_dynamic_expansion=True)".format(name))
    table_name = clean_table_name(name)
    if table_name.startswith(_RESERVED_PREFIX):
        raise TableError("Table name {!r} is reserved, because it begins with {!r}. Choose another name".format(
            name, _RESERVED_PREFIX))
    if table_name in TAKEN_NAMES:
        raise TableError("Table name {!r} is reserved, because each checkpoint has a file {!r} in the directory of its "
                         "tables. Choose another name".format(name, table_name))
    graph = tf.compat.v1.get_default_graph()
    state = GraphState.of(graph)
    if state.marked:
        raise CallOrderError("Table {!r} cannot be created, because the pipeline of this graph has already been "
                             "started. Create all tables before asc.start(){}".format(name, REBUILD_ADVICE))
    tables = state.tables
    if table_name in tables:
        raise TableError("Table name {!r} is already used in this graph{}{}".format(
            name, "" if name == table_name else " (as {!r})".format(table_name), REBUILD_ADVICE))
    width = dim if isinstance(dim, int) else int(dim[0])
    if state.served is not None:
        first = row_initializer(emb_initializer, table_name, width, graph.seed)
        shape = TableShape(NO_TABLE, table_name, width, int(device_vocabulary_size), first.seed, first.kind, first.a,
                           first.b, float(init_param), pool=first.pool)
        variable = None
    else:
        if device_vocabulary_size == 1 and not expands:
            _log.warning("Table %r holds only one key at a time, because device_vocabulary_size is 1 (the default). "
                         "Set it to at least the number of distinct keys of a batch", table_name)
        process.expect_pipeline()
        policy = None if process.is_plain else policy_of_scope(table_name)  # ascpipe.tf raises an error
        if policy is not None:
            _log.warning("%s", policy)
        first = row_initializer(emb_initializer, table_name, width, graph.seed)
        number = _number(process, table_name, list(tables))
        shape = TableShape(number, table_name, width, _share(device_vocabulary_size, ranks), first.seed, first.kind,
                           first.a, first.b, float(init_param), pool=first.pool,
                           home_rows=_share(host_vocabulary_size, ranks), padding_keys=_padding_keys(padding_keys),
                           averages=all2all_gradients_op == "sum_gradients_and_div_by_ranksize")
        if ssd_vocabulary_size > 0:
            shape = shape._replace(home_rows=shape.home_rows + shape.device_rows,
                                   disk_rows=_share(int(host_vocabulary_size) + int(ssd_vocabulary_size), ranks),
                                   directories=_directories(table_name, ssd_data_path, 4 * width))
        variable = _device_rows(graph, shape, process.configuration.hashtable_collection)
    state.add(Table(shape, variable, key_dtype, is_save=is_save), graph)
    patches.apply_to_graph(graph)
    return tables[table_name]


def policy_of_scope(name: str) -> Optional[str]:
    """Return a warning that a regularizer, constraint or custom getter of the variable scope has no effect on the rows
    of a table.

    Return None if the scope has none of these. The getter of a distribution strategy does not count, because a
    program with a strategy gets E253, which says what to do instead.
    """
    scope = tf.compat.v1.get_variable_scope()
    getter = None if tf.distribute.has_strategy() else scope.custom_getter
    for what, value, instead in (("regularizer", scope.regularizer, "add factor * tf.nn.l2_loss(rows) to the loss, "
                                  "where rows is the result of sparse_lookup()"),
                                 ("constraint", scope.constraint, "clip the rows where the model reads them"),
                                 ("custom_getter", getter, "do with the rows where the model reads them "
                                  "what the getter does with variables")):
        if value is not None:
            return ("Table {!r} was created in the variable scope {!r}, which has a {}. A table is not a variable, so "
                    "its rows train without it. Create the table outside the scope, and {} "
                    "(docs/how-to/tables_and_variables.md)".format(name, scope.name, what, instead))
    return None


_ARGUMENTS = tuple(inspect.signature(create_table).parameters)[:-1]


def _number(process: Process, name: str, before: Sequence[str]) -> int:
    """Return the number of the existing table with the name ``name``, or the next free number if there is no such
    table.

    ``before`` contains the names of the earlier tables of the graph.
    """
    known = {} if process.pipeline is None else {
        other: table.shape.number for other, table in process.pipeline.tables.items()}
    for graph in process.deferred.graphs():
        known.update((other, table.shape.number) for other, table in GraphState.of(graph).tables.items())
    if name in known:
        return known[name]
    return len(known) + sum(other not in known for other in before)


def _require_consistent(name: str, device: int, host: int, ssd: int) -> None:
    if ssd > 0 and host == 0:
        raise TableError("Table {!r} has ssd_vocabulary_size {}, but no rows in host memory. Set host_vocabulary_size "
                         "to at least device_vocabulary_size, {}".format(name, ssd, device))
    if host > 0:
        Integer(device, MAX_VOCABULARY).check("host_vocabulary_size", host)


def _directories(table: str, paths: Sequence[str], row_bytes: int) -> Tuple[str, ...]:
    """Return absolute paths of directories for rows on disk. Check each directory by creating a test file."""
    found = []
    for path in paths:
        directory = os.path.abspath(path)
        try:
            file = create_file(directory, row_bytes)
        except RowEngineError as error:
            raise TableError("Table {!r} cannot store rows in ssd_data_path {!r}: {}. {}".format(
                table, path, error.sentence(), "Pass another directory" if os.path.exists(directory) else
                "Create the directory")) from error
        os.close(file.fd)
        if file.file_system == MEMORY:
            _log.warning("Table %r: ssd_data_path %r is on a file system in memory, so rows stored there still occupy "
                         "memory. Use a directory on a disk", table, path)
        found.append(directory)
    if not found:
        raise TableError("Table {!r} has an ssd_vocabulary_size but no ssd_data_path. Pass a directory on a disk"
                         .format(table))
    return tuple(found)


def _share(rows: int, ranks: int) -> int:
    return -(-int(rows) // ranks)


def _require_padding(name: str, keys: Any, mask: bool, length: Optional[int], is_dp: bool) -> None:
    if keys is None:
        if mask:
            raise TableError("Table {!r} has padding_keys_mask=True but no padding_keys. Pass padding_keys, or leave "
                             "padding_keys_mask out".format(name))
        return
    if not mask or length is None:
        raise TableError("Table {!r} has padding_keys, but not both padding_keys_mask=True and padding_keys_len. Pass "
                         "both; padding_keys_len is at least 1".format(name))
    if is_dp:
        raise TableError("Table {!r} has both padding_keys and is_dp=True, which are not supported together. Pass one "
                         "of them".format(name))


def _padding_keys(keys: Union[int, Sequence[int], None]) -> Tuple[int, ...]:
    if keys is None:
        return ()
    return tuple(sorted({int(key) for key in (keys if isinstance(keys, (list, tuple)) else [keys])}))


def _device_rows(graph: tf.Graph, shape: TableShape, collection: str) -> tf.Variable:
    """Create the ref variable of a table. The program's variable scope, partitioner and custom getter are ignored."""
    # The name of a table may begin with an underscore, but the name of an op may not.
    name = "table" + shape.name if shape.name.startswith("_") else shape.name
    with outside_scopes(graph):
        return internals.RefVariable(
            initial_value=lambda: native.ops().asc_table_init(
                table=shape.number, rows=shape.device_rows or 1, dim=shape.dim, training=True),
            trainable=False, collections=[tf.compat.v1.GraphKeys.GLOBAL_VARIABLES, collection], dtype=tf.float32,
            name=name)
