"""Feature columns that always have tables. The program passes the sizes of the tables."""
import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import tensorflow as tf
from tensorflow.python.feature_column import feature_column_v2 as columns_v2

from ascpipe.errors import ColumnError, FeatureError
from ascpipe.tf import internals, patches
from ascpipe.tf.graph.bags import COMBINERS
from ascpipe.tf.running.column_choice import TableSizes
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.shapes import MAX_VOCABULARY
from ascpipe.tf.validation import (
    Choice,
    Instance,
    Integer,
    ListOf,
    Number,
    PathText,
    Rule,
    Text,
    boolean,
    checked,
    wrong_type,
)

_MAX_INT64 = 2 ** 63 - 1

#: Column -> sizes of the table of its linear weights. Columns are compared by value, so a column that is built again
#: has the same sizes.
_linear: Dict[Any, TableSizes] = {}


class _Categorical(Rule):
    def _check(self, name: str, value: Any) -> None:
        Instance(columns_v2.CategoricalColumn, internals.OldCategoricalColumn).check(name, value)


class _Callable(Rule):
    def _check(self, name: str, value: Any) -> None:
        if not callable(value):
            raise wrong_type(name, value, "an initializer")


_RULES: Dict[str, Rule] = {
    "dimension": Integer(1, 8192), "combiner": Choice(*COMBINERS), "initializer": _Callable(optional=True),
    "max_norm": Number(0.0, float("inf"), open_low=True, optional=True), "trainable": boolean(),
    "device_vocabulary_size": Integer(1, MAX_VOCABULARY, optional=True),
    "host_vocabulary_size": Integer(0, MAX_VOCABULARY), "pretrained": PathText(1, 4096, optional=True),
}


class _Sized:
    """Mixin that adds the table sizes to a column of TensorFlow. Columns of TensorFlow are tuples.

    The sizes are part of the column's value. They are also part of ``repr(column)``, because TensorFlow sorts columns
    by this string.
    """

    table_sizes: TableSizes = TableSizes()

    def __eq__(self, other: Any) -> bool:
        # Compare the types first, because a column of TensorFlow may have equal fields.
        return type(self) is type(other) and bool(super().__eq__(other)) and self.table_sizes == other.table_sizes

    def __ne__(self, other: Any) -> bool:  # tuple.__ne__ does not call __eq__
        return not self == other

    def __hash__(self) -> int:
        return hash((super().__hash__(), self.table_sizes))

    def __repr__(self) -> str:
        return "{} with {}".format(super().__repr__(), self.table_sizes)


class TableEmbeddingColumn(_Sized, columns_v2.EmbeddingColumn):
    """Column that ``embedding_column`` of this module returns."""

    def create_state(self, state_manager: Any) -> None:
        """Create the column's table when a layer ``DenseFeatures`` is built.

        Raises:
            EnvironmentError: ``init`` was not called.
            ColumnError: the layer is a layer of TensorFlow 2.
        """
        _begin_use()
        if internals.makes_variables_by_itself(state_manager):
            raise ColumnError(self.name, "layers of TensorFlow 2, which Estimators of tf.compat.v2 use, cannot have "
                                         "a table. Use tf.compat.v1.estimator, "
                                         "tf.compat.v1.keras.layers.DenseFeatures or input_layer")
        super().create_state(state_manager)

    def _old_get_dense_tensor_internal(self, *args: Any, **kwargs: Any) -> Any:
        _begin_use()
        return super()._old_get_dense_tensor_internal(*args, **kwargs)


class TableSharedEmbeddingColumn(_Sized, internals.OldSharedEmbeddingColumn):
    """Column that ``shared_embedding_columns`` of this module returns."""

    def _get_dense_tensor_internal(self, *args: Any, **kwargs: Any) -> Any:
        _begin_use()
        return super()._get_dense_tensor_internal(*args, **kwargs)


def _begin_use() -> None:
    Process.current()
    patches.COLUMNS.use()


class Int64CategoricalColumn(columns_v2.CategoricalColumn, internals.OldCategoricalColumn,
                             NamedTuple("Int64CategoricalColumn", [("key", str)])):
    """Column that ``categorical_column_with_int64`` returns."""

    @property
    def _is_v2_column(self) -> bool:
        return True

    @property
    def name(self) -> str:
        """Return the name of the feature."""
        return self.key

    @property
    def num_buckets(self) -> int:
        """Return the number of buckets, 2^63 - 1."""
        return _MAX_INT64

    @property
    def parse_example_spec(self) -> Dict[str, Any]:
        """Return the spec with which ``tf.Example`` protos are parsed."""
        return {self.key: tf.io.VarLenFeature(tf.int64)}

    def transform_feature(self, transformation_cache: Any, state_manager: Any) -> tf.SparseTensor:
        """Return the ids of a batch. In a dense tensor, the value -1 means that there is no id."""
        return _sparse_integers(self.key, transformation_cache.get(self.key, state_manager))

    def get_sparse_tensors(self, transformation_cache: Any, state_manager: Any) -> Any:
        """Return the ids of a batch, without weights."""
        return self.IdWeightPair(transformation_cache.get(self, state_manager), None)

    @property
    def parents(self) -> List[str]:
        """Return a list that contains the name of the feature."""
        return [self.key]

    _num_buckets = num_buckets
    _parse_example_spec = parse_example_spec

    def _transform_feature(self, inputs: Any) -> tf.SparseTensor:
        return _sparse_integers(self.key, inputs.get(self.key))

    def _get_sparse_tensors(self, inputs: Any, weight_collections: Any = None, trainable: Any = None) -> Any:
        return self.IdWeightPair(inputs.get(self), None)

    def _get_config(self) -> Dict[str, Any]:
        return {"key": self.key}

    @classmethod
    def _from_config(cls, config: Dict[str, Any], custom_objects: Any = None, columns_by_name: Any = None) -> Any:
        return cls(**config)


@checked(key=Text(1, 255))
def categorical_column_with_int64(key: str) -> Int64CategoricalColumn:
    """Return a column whose integers are keys of a table. The integers are not hashed and have no upper limit.

    ``categorical_column_with_hash_bucket`` would convert each integer to a string. This conversion takes about 100 ns
    per id.

    Args:
        key: name of the feature, a sparse or dense tensor of integers. Negative integers are ignored. In a dense
            tensor, use -1 for positions without an id.

    Returns:
        A categorical column for ``embedding_column`` and ``linear_weights`` of this module.
    """
    return Int64CategoricalColumn(key)


@checked(categorical_column=_Categorical(), **_RULES)
def embedding_column(categorical_column: Any, dimension: int, combiner: str = "mean", initializer: Any = None,
                     max_norm: Optional[float] = None, trainable: bool = True, *,
                     device_vocabulary_size: Optional[int] = None,
                     host_vocabulary_size: int = 0,
                     pretrained: Optional[str] = None) -> columns_v2.EmbeddingColumn:
    """Return a ``tf.feature_column.embedding_column`` whose embeddings are in a table.

    The name of the table is derived from the variable that TensorFlow would create, so a column that is used in two
    towers has two tables. As with a variable, lookups of a key that was never trained return the initial row.

    Args:
        categorical_column: categorical column of TensorFlow or of this module, with at most 2^63 - 1 buckets.
        dimension: length of a row, in [1, 8192].
        combiner: "mean", "sum" or "sqrtn", the method that combines the rows of an example's ids.
        initializer: initializer of the rows. The default is a truncated normal initializer with a standard deviation of
            ``1 / sqrt(dimension)``.
        max_norm: maximum L2 norm of a row, greater than 0. Rows with a larger norm are scaled to ``max_norm`` before
            they are combined.
        trainable: True if rows are trained.
        device_vocabulary_size: rows of the device table, in [1, 1e9]. It defaults to the number of buckets.
        host_vocabulary_size: rows in host memory, in [0, 1e9], as in ``create_table``. This is the maximum number of
            keys. With 0, rows are only in the device table.
        pretrained: path of files with initial rows, as in ``create_table``. The keys in the files are the ids of the
            column.

    Returns:
        A column for ``input_layer``, ``DenseFeatures``, ``SequenceFeatures`` and Estimators.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
    """
    column = TableEmbeddingColumn(categorical_column, dimension, combiner, initializer or _initial(dimension),
                                  None, None, max_norm, trainable)
    column.table_sizes = TableSizes(device_vocabulary_size, host_vocabulary_size, pretrained)
    return column


@checked(categorical_columns=ListOf(_Categorical()), shared_embedding_collection_name=Text(1, 255, optional=True),
         **_RULES)
def shared_embedding_columns(categorical_columns: Sequence[Any], dimension: int, combiner: str = "mean",
                             initializer: Any = None, shared_embedding_collection_name: Optional[str] = None,
                             max_norm: Optional[float] = None, trainable: bool = True, *,
                             device_vocabulary_size: Optional[int] = None,
                             host_vocabulary_size: int = 0, pretrained: Optional[str] = None) -> List[Any]:
    """Return columns that share a table, as the columns of ``tf.compat.v1.feature_column.shared_embedding_columns``
    share a variable.

    Other arguments are the same as in ``embedding_column``.

    Args:
        categorical_columns: categorical columns of one kind with equal numbers of buckets.
        shared_embedding_collection_name: name of the table. By default, it is derived from the names of the columns.

    Returns:
        One column per categorical column.

    Raises:
        ValueError: an argument has the wrong type or is out of range, or the columns cannot be shared.
    """
    theirs = tf.compat.v1.feature_column.shared_embedding_columns(
        categorical_columns, dimension, combiner, initializer or _initial(dimension), shared_embedding_collection_name,
        max_norm=max_norm, trainable=trainable)
    columns = [TableSharedEmbeddingColumn(*each) for each in theirs]
    for column in columns:
        column.table_sizes = TableSizes(device_vocabulary_size, host_vocabulary_size, pretrained)
    return columns


@checked(categorical_column=_Categorical(), device_vocabulary_size=_RULES["device_vocabulary_size"],
         host_vocabulary_size=_RULES["host_vocabulary_size"], pretrained=_RULES["pretrained"])
def linear_weights(categorical_column: Any, *, device_vocabulary_size: Optional[int] = None,
                   host_vocabulary_size: int = 0, pretrained: Optional[str] = None) -> Any:
    """Use a table for the weights of a categorical column in ``linear_model`` and linear Estimators.

    Args:
        categorical_column: categorical column. The function returns this column.
        device_vocabulary_size: the same as in ``embedding_column``.
        host_vocabulary_size: the same as in ``embedding_column``.
        pretrained: the same as in ``embedding_column``.

    Raises:
        ValueError: an argument has the wrong type or is out of range.
    """
    patches.COLUMNS.use()
    _linear[categorical_column] = TableSizes(device_vocabulary_size, host_vocabulary_size, pretrained)
    return categorical_column


def sizes_given(column: Any, name: str) -> Optional[TableSizes]:
    """Return the table sizes that the program passed for a variable of a column, or None if the program passed no
    sizes.
    """
    if isinstance(column, (TableEmbeddingColumn, TableSharedEmbeddingColumn)):
        return column.table_sizes
    return _linear.get(column) if name == "weights" else None


def requires_table(column: Any) -> bool:
    """Return True if a table must replace the variable of a column, because this module created the embedding column.
    """
    return isinstance(column, (TableEmbeddingColumn, TableSharedEmbeddingColumn))


def _initial(dimension: int) -> Any:
    return tf.compat.v1.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


def _sparse_integers(key: str, given: Any) -> tf.SparseTensor:
    ids = internals.sparse_input(given)
    if not ids.dtype.is_integer:
        raise FeatureError("Feature {!r} has dtype {}, but categorical_column_with_int64 needs integers".format(
                               key, ids.dtype.name))
    return tf.SparseTensor(ids.indices, tf.cast(ids.values, tf.int64), ids.dense_shape)
