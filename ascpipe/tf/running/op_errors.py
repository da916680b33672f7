"""Functions that remove TensorFlow's text from errors of steps, so that an error ends with ascpipe's advice.

TensorFlow appends a traceback of the creation of the op. For ops of ascpipe, the traceback has about forty lines of
ascpipe's source. A coded text is an error message of ascpipe, which begins with an error code.
"""
import re

import tensorflow as tf

#: A coded text at the start of a message, or in a list if several ops failed. In TensorFlow 2.15, the text may also
#: follow the name of the op, which may be in a dataset.
_CODED = re.compile(
    r"(?:\A|^Node: '[^\n]*'\n|^  \(\d+\) [A-Z][A-Za-z_ ]+: )\s*(?:\{\{function_node [^}]*\}\}\s*)*(E\d{3}: .*?)"
    r"(?=\s*(?:\n\t \[\[|\n  \(\d+\) |\n\d+ successful operations|\n\nOriginal stack trace|\Z))",
    re.DOTALL | re.MULTILINE)


def coded(message: str) -> str:
    """Return the distinct coded texts in an error message of TensorFlow, or "" if the message has no coded text."""
    return "\n".join(dict.fromkeys(_CODED.findall(message)))


def raise_coded(error: tf.errors.OpError) -> None:
    """Raise an error with only the coded text of an op's error. Do nothing if there is no coded text."""
    text = coded(error.message)
    if text:
        raise type(error)(error.node_def, None, text) from None
