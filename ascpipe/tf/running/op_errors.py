"""Shorter errors of steps, which end with the advice.

TensorFlow appends where the op was created. For ops of ascpipe, this is about forty lines of its own source.
"""
import re

import tensorflow as tf

#: A coded text: at the start, or in a list if several ops failed; also from an op within a dataset.
_CODED = re.compile(r"(?:\A|^  \(\d+\) [A-Z][A-Za-z ]+: )\s*(?:\{\{function_node [^}]*\}\}\s*)*(E\d{3}: .*?)"
                    r"(?=\s*(?:\n\t \[\[|\n  \(\d+\) |\n\d+ successful operations|\Z))", re.DOTALL | re.MULTILINE)


def coded(message: str) -> str:
    """Return the distinct coded texts in an error message of TensorFlow, or "" if there are none."""
    return "\n".join(dict.fromkeys(_CODED.findall(message)))


def raise_coded(error: tf.errors.OpError) -> None:
    """Raise an op's error with its coded text only; do nothing if it has none."""
    text = coded(error.message)
    if text:
        raise type(error)(error.node_def, None, text) from None
