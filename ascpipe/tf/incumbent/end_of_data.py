"""``Dataset.eos_map``: where ranks agree on the end of their data; one rank is at its own end."""
from typing import Any

import tensorflow as tf

from ascpipe.tf import patches


def eos_map(dataset: Any, librec: Any = None, channel_id: int = 0, max_train_steps: int = -1,
            max_eval_steps: int = -1) -> tf.compat.v1.data.Dataset:
    """The dataset itself: with one rank it ends where it ends.

    Args:
        dataset: of a channel.
        librec, channel_id, max_train_steps, max_eval_steps: without effect; programs need not know how many steps
            they make.
    """
    return dataset


def install() -> None:
    """Give every dataset of this process the method. May be called twice."""
    patches.EOS_MAP.apply(eos_map)
