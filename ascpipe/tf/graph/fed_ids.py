"""Check that raises an error if a run feeds ids, because the dataset has submitted the ids before the step."""
from typing import Any, Dict, Iterable, List, Sequence

import tensorflow as tf
from tensorflow.python.client import session as session_module

from ascpipe.errors import GraphModificationError
from ascpipe.tf import internals
from ascpipe.tf.graph.graph_state import GraphState


def note_ids(state: GraphState, table_name: str, tensors: Iterable[tf.Tensor]) -> None:
    """Record tensors that must not be fed: the ids of a table in a batch, tensors from which these ids are computed,
    and the ticket of the batch.
    """
    known = _tables_of(state)
    for tensor in tensors:
        known.setdefault(tensor.name, table_name)


def refuse_fed_ids(graph: tf.Graph, arguments: Sequence[Any]) -> None:
    """Raise ``GraphModificationError`` if a run feeds a tensor that determines the ids of a lookup.

    The lookup would read the rows of the ids of the dataset, and other ops of the step would read the fed ids.

    Args:
        arguments: arguments of the call with which a session runs a step. A dict contains the fed values.
    """
    for name in fed_tensors(arguments):
        state = GraphState.known(graph)
        table = None if state is None else _tables_of(state).get(name)
        if table is not None:
            raise GraphModificationError(
                "Tensor {!r} was fed, but it determines the ids of table {!r}. The dataset has submitted the ids of "
                "the batch before the step, so the lookup would read the rows of other ids than the fed ids. Nothing "
                "was run. Read the ids from a tf.data.Dataset, for example from_generator "
                "(docs/tutorial/from-tensorflow.md, Placeholders)".format(name, table))


def _tables_of(state: GraphState) -> Dict[str, str]:
    """Return a dict: tensor name -> name of the table whose ids depend on the tensor. The tensors in the dict must not
    be fed.
    """
    return internals.stored_on(state, "fed_ids", dict)


def fed_tensors(arguments: Sequence[Any]) -> List[str]:
    """Return the names of the tensors that a run feeds.

    Args:
        arguments: arguments of the call with which a session runs a step. A dict contains the fed values.
    """
    return ["{}:{}".format(_op_name(output.oper), output.index)
            for each in arguments if isinstance(each, dict) for output in each]


def ops_run(arguments: Sequence[Any]) -> List[str]:
    """Return the names of the ops that a run fetches.

    Args:
        arguments: arguments of the call with which a session runs a step. Lists contain the fetches and targets.
    """
    return [_op_name(getattr(fetched, "oper", fetched))
            for each in arguments if isinstance(each, list) for fetched in each]


def _op_name(operation: Any) -> str:
    """Return the name of an operation of the C API of TensorFlow."""
    name: str = session_module.tf_session.TF_OperationName(operation)
    return name
