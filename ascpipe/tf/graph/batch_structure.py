"""Functions that find the ids of a feature in a batch, add the ticket to a batch, and fill in default rows."""
import copy
import logging
from typing import Any, Iterator, List, Mapping, Optional, Set, Tuple, Union

import tensorflow as tf

from ascpipe.errors import FeatureError
from ascpipe.tf.graph.features import FeatureSpec
from ascpipe.tf.graph.ids import Ids, are_ids
from ascpipe.tf.validation import did_you_mean

_log = logging.getLogger(__name__)

TICKET_SUFFIX = "_read_emb_key"

#: Pairs of batch keys for which a warning was already logged.
_warned: Set[Tuple[Union[str, int], ...]] = set()


def find_ids(batch: Any, spec: FeatureSpec) -> Optional[Ids]:
    """Return the ids of a feature, or None if no dict of the batch has the feature's key.

    A str key is searched in all dicts of a nested batch. An int key is a position in a list or tuple. In a pair
    (features, labels) whose features are a list or tuple, the int key is a position in the features.

    Raises:
        ValueError: a position is beyond the end of the batch, an int key is used for a dict, or a str key is used for a
            batch without a dict.
        TypeError: the element is not a tensor of integers.
        KeyError: the batch has no timestamp.
    """
    key = key_of(batch, spec)
    if key is not None:
        found = _by_place(batch, key, spec) if isinstance(key, int) else _by_name(batch, key, spec)
        return _require_ids(found, key, spec)
    if spec.is_timestamp:
        raise FeatureError("The timestamp is missing. " + missing(batch, spec))
    return None


def require_ids(batch: Any, spec: FeatureSpec, without_batch: Exception) -> Ids:
    """Return the ids of a feature in a batch, as ``find_ids`` does.

    Raise ``without_batch`` if there is no batch. Raise ``KeyError`` if the batch has no ids of the feature.
    """
    if batch is None:
        raise without_batch
    found = find_ids(batch, spec)
    if found is None:
        raise FeatureError(missing(batch, spec))
    return found


def key_of(batch: Any, spec: FeatureSpec) -> Union[str, int, None]:
    """Return the dict key or the position of a feature's ids in a batch, or None if the batch has no such key.

    The key is ``index_key`` if the program passed it. Otherwise, the key is the name of the feature, or the name of the
    table if the batch does not contain the name of the feature. A warning is logged if the batch contains both names,
    because Rec SDK's documentation uses the table's name.

    Raises:
        ValueError: a str key for a batch without a dict.
    """
    if isinstance(spec.index_key, int):
        return spec.index_key
    there = [key for key in spec.index_keys if _by_name(batch, key, spec) is not None]
    if len(set(there)) > 1 and tuple(there) not in _warned:
        _warned.add(tuple(there))
        _log.warning("FeatureSpec %r uses the ids %r of the batch, which also has %r, the name of the table. Pass "
                     "index_key=%r, or the other name", spec.label, there[0], there[1], there[0])
    return there[0] if there else None


def add_ticket(batch: Any, ticket: tf.Tensor) -> Any:
    """Add the ticket to a batch, so that TensorFlow does not prune the op that submits the ids. Return the new batch.

    The position of the ticket depends on the type of the batch:

    - dict: the entry ``<last sorted key>_read_emb_key``.
    - pair: in the first element, because a model function receives this element.
    - other tuple or list: the last element.
    - single tensor: the second element of a new pair.
    """
    if isinstance(batch, Mapping):
        if not batch:
            raise FeatureError("The batch is an empty dict")
        extended = copy.copy(batch)
        extended[sorted(batch, key=str)[-1] + TICKET_SUFFIX] = ticket  # type: ignore
        return extended
    if not isinstance(batch, (list, tuple)):
        return batch, ticket
    if len(batch) == 2:
        return _rebuilt(batch, [add_ticket(batch[0], ticket), batch[1]])
    if isinstance(batch, list):
        return batch + [ticket]
    return (*batch, ticket)


def tensors_of(batch: Any) -> List[tf.Tensor]:
    """Return all tensors of a nested batch. Tensors of a dict are in the order of the keys."""
    return [element for element in tf.nest.flatten(batch, expand_composites=True) if isinstance(element, tf.Tensor)]


def describe(batch: Any) -> str:
    """Return a description of a batch for error messages."""
    if isinstance(batch, Mapping):
        return "a dict with the keys {}".format(", ".join(sorted(
            repr(key) for key in batch if not str(key).endswith(TICKET_SUFFIX))))
    if isinstance(batch, (list, tuple)):
        return "a {} of {}".format(type(batch).__name__, len(batch))
    return "one {}".format(type(batch).__name__)


def missing(batch: Any, spec: FeatureSpec) -> str:
    """Return a sentence for error messages. The sentence contains the keys that were searched, and a similar key of the
    batch.
    """
    there = [key for candidate in _dicts(batch) for key in candidate
             if isinstance(key, str) and not key.endswith(TICKET_SUFFIX)]
    wanted = list(dict.fromkeys(spec.index_keys))
    near = next((words for words in (did_you_mean(str(key), there) for key in wanted) if words), "")
    return "FeatureSpec {!r}: the batch has no {}; it is {}{}".format(
        spec.label, ", nor ".join(map(repr, wanted)), describe(batch), near + (" Pass it as index_key" if near else ""))


def with_default_row(rows: tf.Tensor, slots: tf.Tensor, restore: tf.Tensor, default_row: tf.Tensor) -> tf.Tensor:
    """Return the rows of a training lookup. Missing positions, and positions of keys that are not admitted, contain
    ``default_row``.

    Args:
        rows: float[..., dim], rows that the lookup returned.
        slots: int32[keys]. The slot of a key that was not admitted is -1.
        restore: int32[...]. The value of a missing position is -1.
        default_row: float, [] or [dim].
    """
    return tf.compat.v2.where(tf.expand_dims(have_rows(slots, restore), -1), rows, default_row)


def have_rows(slots: tf.Tensor, restore: tf.Tensor) -> tf.Tensor:
    """Return a bool tensor with the shape of ``restore`` that is True at positions with a row.

    Args:
        slots: int32[keys]. The slot of a key without a row is -1.
        restore: int32[...]. The value of a missing position is -1.
    """
    slots = tf.concat([slots, [-1]], axis=0)  # for missing positions
    place = tf.compat.v2.where(restore < 0, tf.size(slots) - 1, restore)
    return tf.not_equal(tf.gather(slots, place), -1)


def _by_place(batch: Any, place: int, spec: FeatureSpec) -> Any:
    if isinstance(batch, Mapping):
        raise FeatureError("FeatureSpec {!r}: index_key {} is a position, but the batch is {}. Pass the key of the "
                           "dict".format(spec.label, place, describe(batch)))
    if not isinstance(batch, (list, tuple)):
        elements: Any = (batch,)
    elif len(batch) == 2 and isinstance(batch[0], (list, tuple)):
        elements = batch[0]
    else:
        elements = batch
    if place >= len(elements):
        raise FeatureError("FeatureSpec {!r}: index_key {} is beyond the end of the batch, which is {}".format(
                               spec.label, place, describe(elements)))
    return elements[place]


def _by_name(batch: Any, name: Union[str, int], spec: FeatureSpec) -> Any:
    dicts = list(_dicts(batch))
    if not dicts:
        raise FeatureError("FeatureSpec {!r}: index_key {!r} is the key of a dict, but the batch is {}. Pass a "
                           "position, for example index_key=0".format(spec.label, name, describe(batch)))
    for candidate in dicts:
        if name in candidate:
            return candidate[name]
    return None


def _dicts(batch: Any) -> Iterator[Mapping[Any, Any]]:
    if isinstance(batch, Mapping):
        yield batch
        for key in sorted(batch, key=str):
            yield from _dicts(batch[key])
    elif isinstance(batch, (list, tuple)):
        for element in batch:
            yield from _dicts(element)


def _require_ids(found: Any, key: Union[str, int], spec: FeatureSpec) -> Ids:
    if not isinstance(found, (tf.Tensor, tf.SparseTensor, tf.RaggedTensor)):
        raise FeatureError("FeatureSpec {!r}: {!r} of the batch is {}; expected a Tensor, SparseTensor or "
                           "RaggedTensor of ids".format(spec.label, key, type(found).__name__))
    if not are_ids(found.dtype):
        raise FeatureError("FeatureSpec {!r}: {!r} of the batch has dtype {}, but ids are integers{}".format(
                               spec.label, key, found.dtype.name,
                               ". Before the insert function, map tf.strings.to_hash_bucket_fast(ids, 2 ** 63 - 1)"
                               if found.dtype == tf.string else ""))
    return Ids.of(found)


def _rebuilt(batch: Any, elements: List[Any]) -> Any:
    if hasattr(batch, "_fields"):
        return type(batch)(*elements)
    return type(batch)(elements)
