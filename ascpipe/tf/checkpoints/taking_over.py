"""Restore of checkpoints that a program with feature columns wrote before it used tables (``take_over=True``)."""
import logging
import os
import re
import shutil
import tempfile
from typing import Any, Dict, Iterator, List

import tensorflow as tf

from ascpipe.checkpoint import disk
from ascpipe.checkpoint.contents import InitialRows, Policies, SlotSpec, TableSpec
from ascpipe.checkpoint.dense_part import is_dense_name
from ascpipe.checkpoint.errors import NotConvertedError
from ascpipe.checkpoint.paths import Place, place_of
from ascpipe.checkpoint.tree import why
from ascpipe.layout.initial_kinds import CONSTANT
from ascpipe.rows.bundles import Bundle
from ascpipe.rows.free_names import Name, base_and_step
from ascpipe.rows.newest import note_newest
from ascpipe.rows.taking_over import DIV, Source, Variable, source_of, written
from ascpipe.rows.vocabularies import IDENTITY
from ascpipe.tf import internals
from ascpipe.tf.checkpoints import tensorflow_part
from ascpipe.tf.clean_up import interruptible
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.graph.stand_ins import StandIns
from ascpipe.tf.running.column_choice import Columns
from ascpipe.tf.running.process import Process

_log = logging.getLogger(__name__)

BEFORE = "before-tables"  #: folder for TensorFlow's checkpoint, in the directory of the checkpoints
_README = "README.txt"
_README_TEXT = """\
The checkpoint in this folder was trained without tables. Later checkpoints, in the
directory above, contain tables of ascpipe. Start the program with `ascpipe run --columns`.
Without it, TensorFlow raises a NotFoundError: "Key ... not found in checkpoint".

To continue without ascpipe, convert the newest checkpoint, and use NEW as the model_dir:
ascpipe checkpoint to-tensorflow DIRECTORY/model.ckpt-STEP --to NEW/model.ckpt-STEP

To discard all steps since then, use a copy of this folder as the model_dir.
"""
_POWER = re.compile(r"((?:.*/)?beta[12]_power)(?:_\d+)?\Z", re.DOTALL)


def is_requested(saver: tf.compat.v1.train.Saver, state: GraphState, prefix: str) -> bool:
    """Return whether the program requests to take over a checkpoint of plain TensorFlow."""
    choice = Columns.of(Process.current()).choice
    if choice is None or not choice.take_over or not StandIns.of(state):
        return False
    place = place_of(prefix)
    return (not any(os.path.isdir(os.path.join(place.directory, name)) for name in place.names)
            and os.path.isfile(os.path.join(place.directory, place.stem + ".index"))
            and not tensorflow_part.is_of_variables_alone(saver, state))


@interruptible
def converted(state: GraphState, graph: tf.Graph, prefix: str) -> Iterator[str]:
    """Convert a checkpoint of plain TensorFlow to a temporary checkpoint with tables, and yield the prefix of the
    temporary checkpoint.

    The files of TensorFlow's checkpoint are kept in the folder ``before-tables``, because the next save may use the
    same name.

    Raises:
        NotConvertedError: a variable is missing, or does not fit its table.
        CheckpointError: the checkpoint is damaged, or the temporary checkpoint cannot be written.
    """
    place = place_of(prefix)
    try:
        folder = tempfile.mkdtemp(prefix=".take-over-", dir=place.directory)
    except OSError as error:
        raise NotConvertedError(prefix, place.directory, why(error)) from error
    try:
        with Bundle(prefix) as bundle:
            sources = _sources(bundle, state)
            base, step = base_and_step(place.stem)
            new, _ = written(bundle, sources, _names(graph), Name(folder, base, step))
        if state.trains and Process.current().running_pipeline().rank == 0:
            _keep(place)
        _log.warning("%s was trained without tables: its variables %s become tables. A copy of the checkpoint is in %s",
                     prefix, ", ".join(one.variable for one in sources), os.path.join(place.directory, BEFORE))
        yield new
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sources(bundle: Bundle, state: GraphState) -> List[Source]:
    behind = StandIns.of(state).variables()
    seeds = Process.current().running_pipeline().seeds
    found = []
    for name, table in state.tables.items():
        if not table.is_save:
            continue
        if name not in behind:
            raise NotConvertedError(bundle.prefix, "table {!r}".format(name), "it belongs to no feature column. "
                                    "Convert its variable with `ascpipe checkpoint from-tensorflow`")
        slots = tuple(SlotSpec(slot.name, slot.width, slot.initial or 0.0) for slot in state.slots.get(name, ()))
        spec = TableSpec(name, table.emb_size, table.key_dtype.name, slots, 0, 0,
                         InitialRows(seeds[name], CONSTANT, 0.0, 0.0, 1.0),
                         Policies(-1, counting=False, faae_coefficient=1, eviction_threshold=-1, time=0))
        found.append(source_of(bundle, Variable(behind[name], name, IDENTITY, DIV), spec))
    return found


def _names(graph: tf.Graph) -> Dict[str, str]:
    """Return a dict for Adam's beta powers that plain TensorFlow names differently: name in this graph -> name in plain
    TensorFlow.

    TensorFlow has one pair of powers per Adam optimizer. With tables, the tables' optimizer has another pair with the
    same values, and TensorFlow numbers the names of all pairs.
    """
    owners: Dict[str, int] = {}
    made: Dict[Any, tf.compat.v1.train.Optimizer] = internals.stored_on(graph, "optimizers_for_tables", dict)
    with graph.as_default():
        for number, (program, for_tables) in enumerate(made.items()):
            for optimizer in (program, for_tables):
                variables = optimizer.variables() if isinstance(optimizer, tf.compat.v1.train.Optimizer) else []
                owners.update((variable.op.name, number) for variable in variables)
        powers = sorted((variable.op for variable in tf.compat.v1.global_variables()
                         if _POWER.match(variable.op.name)), key=internals.order_of)
    found: Dict[str, str] = {}
    numbers: Dict[str, List[Any]] = {}
    for op in powers:
        match = _POWER.match(op.name)
        base = match.group(1) if match is not None else op.name
        known = numbers.setdefault(base, [])
        owner = owners.get(op.name, op.name)
        if owner not in known:
            known.append(owner)
        place = known.index(owner)
        found[op.name] = base if place == 0 else "{}_{}".format(base, place)
    return {new: old for new, old in found.items() if new != old}


def _keep(place: Place) -> None:
    """Keep the files of TensorFlow's checkpoint, as hard links if the file system supports them."""
    try:
        with disk.closing(disk.open_directory(place.directory)) as fd:
            with disk.closing(disk.make_or_open_directory(fd, BEFORE)) as kept:
                for name in disk.names(fd):
                    if is_dense_name(name, place.stem) and not disk.is_there(kept, name) and not disk.try_link(
                            fd, name, kept, name):
                        disk.copy_file(fd, name, kept, name)
                if not disk.is_there(kept, _README):
                    disk.write_file(kept, _README, _README_TEXT.encode())
                disk.sync(kept)
    except OSError as error:
        raise NotConvertedError(place.prefix, BEFORE, why(error)) from error
    note_newest(Name(os.path.join(place.directory, BEFORE), *base_and_step(place.stem)))
