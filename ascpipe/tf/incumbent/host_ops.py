"""Host ops of Rec SDK that programs may call, and the dataset method ``eos_map`` of Rec SDK."""
from typing import Any, NoReturn, Optional

import tensorflow as tf

from ascpipe.errors import NotBuiltYetError
from ascpipe.tf import patches
from ascpipe.tf.program.table_changes import set_threshold
from ascpipe.tf.running import native
from ascpipe.tf.validation import Choice, Integer, Text, checked

_SUBMIT = "use get_asc_insert_func, which submits ids"

_INSTEAD = {
    "read_emb_key_v2": _SUBMIT,
    "read_emb_key_v2_dynamic": _SUBMIT,
    "lazy_adam": "use mx_rec.optimizers.lazy_adam.create_hash_optimizer",
    "sgd": "use mx_rec.optimizers.gradient_descent.create_hash_optimizer",
}


class HostOps:
    """Host ops that ``import_host_pipeline_ops`` returns. Programs use the object like a module."""

    set_threshold = staticmethod(set_threshold)

    @staticmethod
    def clear_channel(channel_id: int = 0, name: Any = None) -> tf.Operation:
        """Return a no-op. In Rec SDK, the op resets a channel's counter, which does not exist in ascpipe."""
        return tf.no_op(name=name or "clear_channel_{}".format(channel_id))

    @staticmethod
    def return_timestamp(sample: Any, name: Optional[str] = None) -> tf.Tensor:
        """Return the current time. Use the result as the timestamp feature if the data contains no timestamps.

        Args:
            sample: any tensor of the batch. The op depends on it, so the time is read for each batch.

        Returns:
            The number of seconds since 1970, an int64 scalar.
        """
        with tf.control_dependencies([tf.convert_to_tensor(sample)]):
            return tf.cast(tf.timestamp(), tf.int64, name=name)

    @staticmethod
    @checked(embedding_dim=Integer(1), embedding_type=Choice(1), name=Text(1, 255, optional=True))
    def embedding_lookup_by_address(addr: Any, embedding_dim: int, embedding_type: int = 1,
                                    name: Optional[str] = None) -> tf.Tensor:
        """Read the first elements of rows of an expansion table. ``addr`` contains the handles of the rows.

        The op fails at run time for an invalid handle.

        Args:
            addr: int64[n], handles of this step from the collection ``ASCEND_SPARSE_LOOKUP_ID_OFFSET``. The result for
                handle 0 is zeros.
            embedding_dim: number of floats per row. A row contains the embedding, followed by the optimizer slots.
            embedding_type: 1, which means float32.

        Returns:
            float[n, embedding_dim].

        Raises:
            ValueError: an argument has the wrong type or is out of range.
        """
        return native.ops().asc_read_rows(handles=tf.convert_to_tensor(addr, tf.int64), width=embedding_dim, name=name)

    @staticmethod
    @checked(update_type=Choice(0), name=Text(1, 255, optional=True))
    def embedding_update_by_address(addr: Any, delta: Any, update_type: int = 0,
                                    name: Optional[str] = None) -> tf.Operation:
        """Add values to the first elements of rows of an expansion table.

        ``addr`` contains the handles of the rows. Values for repeated handles are added in order. The op fails at run
        time for an invalid handle. A failed op writes nothing.

        Args:
            addr: int64[n], handles as in ``embedding_lookup_by_address``. A handle of 0 is skipped.
            delta: float[n, m], where m is at most the number of floats of a row.
            update_type: 0, which means addition.

        Raises:
            ValueError: an argument has the wrong type or is out of range.
        """
        return native.ops().asc_write_rows(
            handles=tf.convert_to_tensor(addr, tf.int64), rows=tf.convert_to_tensor(delta, tf.float32), add=True,
            name=name)

    def __getattr__(self, name: str) -> Any:
        if name not in _INSTEAD:
            raise AttributeError("the host ops have no {!r}".format(name))

        def refuse(*args: Any, **kwargs: Any) -> NoReturn:
            raise NotBuiltYetError("the host op {}".format(name), _INSTEAD[name])

        return refuse


def import_host_pipeline_ops(so_name: str = "") -> HostOps:
    """Return an object with the host ops of Rec SDK.

    ascpipe does not provide all host ops of Rec SDK. Calling a missing op raises an error.

    Args:
        so_name: ignored, because there is only one library.

    Raises:
        RuntimeError: the compiled ops are missing or do not match this version.
    """
    try:
        native.ops()
    except Exception as error:
        raise RuntimeError("The host ops cannot be loaded: {}".format(error)) from error
    patches.HOST_OPS.use()
    return HostOps()


@patches.EOS_MAP.by
def eos_map(dataset: Any, librec: Any = None, channel_id: int = 0, max_train_steps: int = -1,
            max_eval_steps: int = -1) -> tf.compat.v1.data.Dataset:
    """Return the dataset unchanged, because ascpipe does not need a marker for the end of the data."""
    return dataset
