"""Errors of a step end with what to do.

TensorFlow puts behind the text of an op's error the names of ops, and where the program built them. Ops of ascpipe are
built by ascpipe, so forty lines of its own source would come after the sentence that says what to do.
"""
import re

import tensorflow as tf

#: A coded text, at the beginning or, where several ops failed, as one of a list; also of an op within a dataset.
_CODED = re.compile(r"(?:\A|^  \(\d+\) [A-Z][A-Za-z ]+: )\s*(?:\{\{function_node [^}]*\}\}\s*)*(E\d{3}: .*?)"
                    r"(?=\s*(?:\n\t \[\[|\n  \(\d+\) |\n\d+ successful operations|\Z))", re.DOTALL | re.MULTILINE)


def coded(message: str) -> str:
    """The coded texts of an error of TensorFlow, each once; empty if it has none."""
    return "\n".join(dict.fromkeys(_CODED.findall(message)))


def raise_coded(error: tf.errors.OpError) -> None:
    """Raise an error of an op with its coded text alone; do nothing if it has none."""
    text = coded(error.message)
    if text:
        raise type(error)(error.node_def, None, text) from None
