"""Functions that remove TensorFlow's text from errors of steps, so that an error ends with ascpipe's advice.

TensorFlow appends a traceback of the creation of the op. For ops of ascpipe, the traceback has about forty lines of
ascpipe's source. An error message of ascpipe begins with an error code, for example E422.
"""
import re

import tensorflow as tf

#: An error message of ascpipe at the start of TensorFlow's message, or in a list if several ops failed. In TensorFlow
#: 2.15, it may also follow the name of the op, which may be in a dataset.
_CODED = re.compile(
    r"(?:\A|^Node: '[^\n]*'\n|^  \(\d+\) [A-Z][A-Za-z_ ]+: )\s*(?:\{\{function_node [^}]*\}\}\s*)*(E\d{3}: .*?)"
    r"(?=\s*(?:\n\t \[\[|\n  \(\d+\) |\n\d+ successful operations|\n\nOriginal stack trace|\Z))",
    re.DOTALL | re.MULTILINE)


def coded(message: str) -> str:
    """Return the distinct error messages of ascpipe in a message of TensorFlow, or "" if there is no such message."""
    return "\n".join(dict.fromkeys(_CODED.findall(message)))


def raise_coded(error: tf.errors.OpError) -> None:
    """If an op's error contains a message of ascpipe, raise an error with only this message. Otherwise, do nothing."""
    text = coded(error.message)
    if text:
        raise type(error)(error.node_def, None, text) from None
