"""Errors of a step end with what to do.

TensorFlow puts behind the text of an op's error the names of ops, and where the program built them. Ops of ascpipe are
built by ascpipe, so forty lines of its own source would come after the sentence that says what to do.
"""
import contextlib
import re
from typing import Iterator

import tensorflow as tf

#: A coded text, at the beginning or, where several ops failed, as one of a list; also of an op within a dataset.
_CODED = re.compile(r"(?:\A|^  \(\d+\) [A-Z][A-Za-z ]+: )\s*(?:\{\{function_node [^}]*\}\}\s*)*(E\d{3}: .*?)"
                    r"(?=\s*(?:\n\t \[\[|\n  \(\d+\) |\n\d+ successful operations|\Z))", re.DOTALL | re.MULTILINE)


def coded(message: str) -> str:
    """The coded texts of an error of TensorFlow, each once; empty if it has none."""
    return "\n".join(dict.fromkeys(_CODED.findall(message)))


@contextlib.contextmanager
def coded_text_alone() -> Iterator[None]:
    """Let coded errors of ops in the block have their text alone."""
    try:
        yield
    except tf.errors.OpError as error:
        text = coded(error.message)
        if not text:
            raise
        raise type(error)(error.node_def, None, text) from None
