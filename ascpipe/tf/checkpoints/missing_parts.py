"""Advice on what to do if a checkpoint lacks a table or an optimizer slot."""
import functools
from typing import Callable, Collection

import tensorflow as tf

from ascpipe.checkpoint.errors import NoCheckpointError
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns

#: Returns what to do about a missing table or ``table/slot``; "" means that the checkpoint has no tables at all.
Advice = Callable[[str], str]


class MissingError(NoCheckpointError, tf.errors.NotFoundError, ValueError):
    """The checkpoint does not exist (E520). Also an instance of the errors of TensorFlow's Saver.

    TensorFlow raises ``NotFoundError`` if the directory is missing, and ``ValueError`` if only the checkpoint is.
    """

    def __init__(self, path: str) -> None:
        tf.errors.NotFoundError.__init__(self, None, None, "")
        NoCheckpointError.__init__(self, path)
        self._message = str(self)


def advise_allow_missing(missing: str) -> str:
    """Return the advice for a program that calls ``restore``."""
    if not missing:
        return ("To start with empty tables, list them in allow_missing. To restore only some variables, use a Saver "
                "with a var_list")
    return "to start it {}, add {!r} to allow_missing".format(_initial_state(missing), missing)


def advice_for(state: GraphState, graph: tf.Graph, prefix: str) -> Advice:
    """Return ``advise_allow_missing``, or other advice if an Estimator or a managed session restores.

    They finalize the graph first, and cannot pass ``allow_missing``.
    """
    if not graph.finalized:
        return advise_allow_missing
    return functools.partial(_advise_other_directory, StandIns.of(state).variables(), prefix)


def _advise_other_directory(of_columns: Collection[str], prefix: str, missing: str) -> str:
    elsewhere = ("{} another model_dir or checkpoint_dir. To start the training there from the values of {}, list "
                 "its variables{} in warm_start_from=tf.estimator.WarmStartSettings(...) or in asc.warm_start() "
                 "(docs/how-to/warm_start.md)")
    if not missing:
        return ("A program without tables trained this model: its embeddings are variables, which tables cannot "
                "load. {}".format(elsewhere.format("Use", prefix, "")))
    text = elsewhere.format("use", prefix, " and tables")
    if missing in of_columns:
        return text
    return "{}; or set ASCPIPE_ALLOW_MISSING={}, and it starts {}".format(text, missing, _initial_state(missing))


def _initial_state(missing: str) -> str:
    return "from its initializer" if "/" in missing else "empty"
