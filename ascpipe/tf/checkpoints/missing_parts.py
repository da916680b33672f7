"""Advice for error messages about tables that are missing in a checkpoint, or whose slots or dimension differ from the
checkpoint.
"""
import functools
import shlex
from typing import Callable, Collection

import tensorflow as tf

from ascpipe.checkpoint.contents import TableSpec
from ascpipe.checkpoint.errors import NoCheckpointError
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.shapes import TableShape

#: Function that returns the advice for a missing table or ``table/slot``. The argument is "" if the checkpoint has no
#: tables.
Advice = Callable[[str], str]


class MissingError(NoCheckpointError, tf.errors.NotFoundError, ValueError):
    """Error E520: the checkpoint does not exist.

    The base classes are the errors of TensorFlow's Saver. TensorFlow raises ``NotFoundError`` if the directory is
    missing. It raises ``ValueError`` if only the checkpoint is missing.
    """

    def __init__(self, path: str) -> None:
        tf.errors.NotFoundError.__init__(self, None, None, "")
        NoCheckpointError.__init__(self, path)
        self._message = str(self)


def advise_allow_missing(missing: str) -> str:
    """Return the advice to use ``allow_missing``. This advice applies to programs that call ``restore``."""
    if not missing:
        return ("To convert variables to tables, use `ascpipe checkpoint from-tensorflow`. To start with empty tables, "
                "list them in allow_missing. To restore only some variables, use a Saver with a var_list")
    return "to start it {}, add {!r} to allow_missing".format(_initial_state(missing), missing)


def advise_import(prefix: str, spec: TableSpec, shape: TableShape, slots: Collection[str]) -> str:
    """Return the commands that import rows whose dimension differs from the dimension of the table.

    Args:
        prefix: checkpoint with the rows.
        spec: the table in the checkpoint.
        shape: the table in the program.
        slots: names of the optimizer slots in the program.
    """
    folder = spec.name + "_rows"
    has_slots = bool(spec.slots) and all(slot.name in slots for slot in spec.slots)
    return ("To use these rows: (1) save a checkpoint of this program before its first step, called NEW below; (2) run "
            "`ascpipe checkpoint export {} --table {} --to {}{} --counts`; (3) run `ascpipe checkpoint import {} "
            "--into NEW --table {} {}`; (4) restore the checkpoint that the last command prints".format(
                shlex.quote(prefix), spec.name, folder, " --slots" if has_slots else "", folder, shape.name,
                "--pad" if spec.dim < shape.dim else "--truncate"))


def advice_for(state: GraphState, graph: tf.Graph, prefix: str) -> Advice:
    """Return ``advise_allow_missing``, or a function with different advice in an Estimator or managed session.

    Estimators and managed sessions finalize the graph before a restore, and cannot pass ``allow_missing``.
    """
    if not graph.finalized:
        return advise_allow_missing
    return functools.partial(_advise_other_directory, StandIns.of(state).variables(), prefix)


def _advise_other_directory(of_columns: Collection[str], prefix: str, missing: str) -> str:
    elsewhere = ("{} another model_dir or checkpoint_dir. To start the training there from the values of {}, list "
                 "its variables{} in warm_start_from=tf.estimator.WarmStartSettings(...) or in asc.warm_start() "
                 "(docs/how-to/warm_start.md)")
    if not missing:
        how = ("use `ascpipe run --columns --take-over`, or pass take_over=True to asc.use_for_feature_columns()"
               if of_columns else "convert the checkpoint with `ascpipe checkpoint from-tensorflow`")
        return ("A program without tables trained this model, so its embeddings are variables. To continue with "
                "tables, {}. Otherwise, {}".format(how, elsewhere.format("use", prefix, "")))
    text = elsewhere.format("use", prefix, " and tables")
    if missing in of_columns:
        return text
    return "{}; or set ASCPIPE_ALLOW_MISSING={}, and it starts {}".format(text, missing, _initial_state(missing))


def _initial_state(missing: str) -> str:
    return "from its initializer" if "/" in missing else "empty"
