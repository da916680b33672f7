"""The host ops of the incumbent that a program may call itself."""
from typing import Any, NoReturn

import tensorflow as tf

from ascpipe.tf import native
from ascpipe.tf.cuts import set_threshold
from ascpipe.tf.not_built import NotBuiltYetError

_BY_ADDRESS = "rows by address need dynamic expansion; look rows up with sparse_lookup"
_SUBMIT = "ids are submitted by get_asc_insert_func"
_INSTEAD = {
    "read_emb_key_v2": _SUBMIT,
    "read_emb_key_v2_dynamic": _SUBMIT,
    "return_timestamp": "give get_asc_insert_func a FeatureSpec(..., is_timestamp=True)",
    "embedding_lookup_by_address": _BY_ADDRESS,
    "embedding_update_by_address": _BY_ADDRESS,
    "lazy_adam": "use mx_rec.optimizers.lazy_adam.create_hash_optimizer",
    "sgd": "use mx_rec.optimizers.gradient_descent.create_hash_optimizer",
}


class HostOps:
    """What ``import_host_pipeline_ops`` returns; it is used as a module."""

    set_threshold = staticmethod(set_threshold)

    @staticmethod
    def clear_channel(channel_id: int = 0, name: Any = None) -> tf.Operation:
        """An op that does nothing: tickets need no counter that could be reset."""
        return tf.no_op(name=name or "clear_channel_{}".format(channel_id))

    def __getattr__(self, name: str) -> Any:
        if name not in _INSTEAD:
            raise AttributeError("the host ops have no {!r}".format(name))

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotBuiltYetError("the host op {}".format(name), _INSTEAD[name])

        return refuse


def import_host_pipeline_ops(so_name: str = "") -> HostOps:
    """The host ops: ``set_threshold`` and ``clear_channel``; others say what to use instead.

    Args:
        so_name: without effect; there is one library.

    Raises:
        RuntimeError: the compiled ops are missing or do not fit; the text says what to do.
    """
    try:
        native.ops()
    except Exception as error:
        raise RuntimeError("the host ops cannot be loaded: {}".format(error)) from error
    return HostOps()
