"""``Saver``, a subclass of TensorFlow's Saver that also saves and restores the sparse tables.

``init`` and ``import mx_rec`` replace methods of ``tf.train.Saver`` with the methods of this class. Estimators,
monitored sessions and programs for Rec SDK then use the new methods.
"""
import contextlib
import functools
import logging
import os
import re
import time
from typing import Any, Collection, Dict, Mapping, Optional

import numpy as np
import tensorflow as tf
from tensorflow.python.training import checkpoint_management, training_util

from ascpipe.checkpoint import model_index
from ascpipe.checkpoint.errors import CheckpointError, NoCheckpointError, NoTablesError, NotSavedError
from ascpipe.checkpoint.retention import complete_checkpoints, deltas_of, is_delta, remove_checkpoint
from ascpipe.errors import ArgumentError, CallOrderError, SaverError
from ascpipe.tf import patches
from ascpipe.tf.checkpoints import saver_parts, taking_over, tensorflow_part
from ascpipe.tf.checkpoints.missing_parts import MissingError, advice_for
from ascpipe.tf.checkpoints.restoring import Differences, restore_checkpoint
from ascpipe.tf.checkpoints.saving import Checkpoints, SaveRequest, begin_save, prefix_of, save_checkpoint, saved_part
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Having, IntegerScalar, Names, PathText, Text, boolean, check_all

_log = logging.getLogger(__name__)

_LEFT_OUT = ("a Saver restores all tables, also %s, which its var_list does not contain. To restore only a variable, "
             "call variable.load(tf.train.load_variable(path, variable.op.name), session)")
_SESSION = Having("a session", "run", "graph")
_NAMES = Having("a dict from names to names", "keys", "items")
_RULES_OF_SAVE = {"save_path": PathText(1, 1024), "latest_filename": Text(1, 50, optional=True),
                  "global_step": IntegerScalar(optional=True), "meta_graph_suffix": Text(1, 50)}


class Saver(tf.compat.v1.train.Saver):
    """Saver of dense variables and sparse tables.

    A checkpoint contains the variables and tables in their state after the same training step. The arguments are the
    same as for ``tf.train.Saver``. All tables are saved and restored, except tables created with ``is_save=False``.
    ``var_list`` does not select tables. The tables of checkpoint ``dir/base-100`` are in ``dir/sparse-base-100``
    (docs/reference/checkpoints.md). In a graph without tables, this class behaves like TensorFlow's Saver.
    """

    @patches.SAVER_BUILD.by
    def _build(self, *args: Any, **kwargs: Any) -> None:
        tensorflow_part.build(self, functools.partial(patches.SAVER_BUILD.plain, self, *args, **kwargs))

    @patches.SAVER_SAVE.by
    def save(self, sess: Any, save_path: str, global_step: Any = None, latest_filename: Optional[str] = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False, is_incremental_checkpoint: bool = False,
             save_delta: bool = False, background: bool = False) -> Optional[str]:
        """Save variables and tables between two training steps.

        The checkpoint is durable when this method returns, except with ``background``. A save first waits for a running
        background save. With several ranks, all ranks write their slices when rank 0 saves. On another rank, this
        method writes nothing. It waits until rank 0 has committed the checkpoint, and returns the name of the
        checkpoint. The method returns the same name if rank 0 does not save the checkpoint. Arguments that are not
        listed are the same as in TensorFlow.

        Args:
            sess: session of a graph whose pipeline runs. The calling thread must not be running a step of this session.
            save_path: ``dir/base``, or ``dir/`` for names without a base. ``save`` creates the directory if necessary.
            global_step: integer or integer tensor that is appended to the name, or None. If a checkpoint with this name
                exists, it is replaced atomically, unless nothing has changed since it was saved.
            is_incremental_checkpoint: has no effect. Use the argument of ``init``.
            save_delta: True to save only the changes of the tables since the last save with this directory and base, in
                ``dir/delta-sparse-base-step``. If no delta is possible, for example in the first save of a run, a
                full checkpoint is saved and the reason is logged. A full save deletes earlier deltas, unless
                ``max_to_keep`` is None.
            background: True to return as soon as the device rows have been copied. The save thread then writes the
                checkpoint while training continues. The checkpoint exists when the ``checkpoint`` file contains its
                name. ``wait_for_save``, the next save, a restore and the end of the pipeline wait for the save.

        Returns:
            ``dir/base-step``, the argument for ``restore``.

        Raises:
            RuntimeError: the graph has tables, and its pipeline was not started, or ``shutdown`` was called.
            NotSavedError: the checkpoint cannot be written. Earlier checkpoints are unchanged, and training may
                continue. The error is also raised if the previous background save has failed, or if the session reads a
                copy of a restored checkpoint. In these cases, nothing is written.
            ValueError: an argument has the wrong type, the path is not allowed, or ``latest_filename`` is empty or
                longer than 50 characters.
            ServingError: a SavedModel builder called this method. Nothing was saved.
            tf.errors.OpError: the pipeline has failed, or TensorFlow could not save its part. On another rank, the
                program of rank 0 has failed.
        """
        check_all({"sess": _SESSION, "save_delta": boolean(), "background": boolean()},
                  {"sess": sess, "save_delta": save_delta, "background": background})
        GraphState.require_not_ended(sess.graph, "Nothing was written. Call save() before asc.shutdown()")
        state = _state_with_tables(sess.graph)
        tensorflow_part.complete(self, sess.graph)
        if state is None:
            saved_by_tensorflow: Optional[str] = patches.SAVER_SAVE.plain(
                self, sess, save_path, global_step, latest_filename, meta_graph_suffix, write_meta_graph, write_state,
                strip_default_attrs, save_debug_info)
            return saved_by_tensorflow
        tensorflow_part.require_no_saved_model(save_path, write_meta_graph or write_state)
        check_all(_RULES_OF_SAVE, {"save_path": save_path, "latest_filename": latest_filename,
                                   "global_step": global_step, "meta_graph_suffix": meta_graph_suffix})
        process = Process.current()
        if not state.is_live(sess):
            raise NotSavedError(save_path, "this session reads the tables of a restored checkpoint, without their "
                                "optimizer slots. Copy that checkpoint, or save in the session that trains them", 0, 0,
                                "Nothing was written.")
        latest_filename = latest_filename or "checkpoint"
        directory, base = os.path.split(save_path)
        began = time.monotonic()
        pipeline = process.running_pipeline()
        step = _step_number(sess, global_step)
        if pipeline.rank != 0:
            return _saved_by_rank_0(pipeline, save_path, step, background)

        def save_dense(prefix: str) -> None:
            patches.SAVER_SAVE.plain(
                self, sess, prefix, None, latest_filename, meta_graph_suffix, write_meta_graph and not background,
                False, strip_default_attrs, save_debug_info)

        def describe(prefix: str) -> None:
            if write_meta_graph:
                with sess.graph.as_default():
                    self.export_meta_graph(checkpoint_management.meta_graph_filename(prefix, meta_graph_suffix),
                                           strip_default_attrs=strip_default_attrs, save_debug_info=save_debug_info)

        def publish(saved: str) -> None:
            if write_state and not self._is_empty:
                _note_saved(self, saved, directory, base, latest_filename, meta_graph_suffix)
                if process.configuration.is_incremental_checkpoint:
                    model_index.note_saved(saved, cost_s=time.monotonic() - began)
            Checkpoints.of(process).note(pipeline, saved, time.monotonic() - began)

        request = SaveRequest(pipeline, saved_part(pipeline, state), directory or os.curdir, base,
                              step, dense=not self._is_empty, delta=save_delta,
                              threshold=process.configuration.recent_key_count_threshold)
        if background:
            return begin_save(request, save_dense, describe, publish)
        return save_checkpoint(request, save_dense, publish)

    @patches.SAVER_RESTORE.by
    def restore(self, sess: Any, save_path: str, allow_unverified: bool = False,
                allow_missing: Collection[str] = (), rename: Optional[Mapping[str, str]] = None) -> None:
        """Verify a checkpoint. Between two training steps, replace variables and tables with the contents of the
        checkpoint.

        Batches that were read ahead are trained after the restore. If the graph only evaluates, the live tables do not
        change. ``sess`` then reads a copy of the checkpoint's rows, unless the live tables have the same state as the
        checkpoint. With several ranks, all ranks load their shards of the tables when rank 0 restores. If another rank
        restores, only its variables are replaced. The first restore after ``init(restore_model_version=...)`` uses this
        argument instead of the step in ``save_path``.

        Args:
            sess: session of a graph whose pipeline runs.
            save_path: result of ``save``.
            allow_unverified: True to accept a checkpoint without a manifest of ascpipe, such as a checkpoint of Rec
                SDK. ``ASCPIPE_ALLOW_UNVERIFIED=1`` has the same effect.
            allow_missing: names of tables that may be missing or empty, and names ``"table/slot"`` of optimizer slots.
                ``ASCPIPE_ALLOW_MISSING="table,table/slot"`` adds names. A saver whose ``var_list`` has only variables
                can restore them from a checkpoint without tables, without ``allow_missing``.
            rename: name of a table in the checkpoint -> its name in this program, for tables with another name.

        Raises:
            RuntimeError: the graph has tables, and its pipeline was not started, or ``shutdown`` was called.
            ValueError: an argument has the wrong type, or no checkpoint has the step of ``restore_model_version``. A
                name in ``rename`` is not the name of a table in the program, or occurs twice.
            MissingError: E520. The checkpoint does not exist. The error is also a ``ValueError``, a
                ``tf.errors.NotFoundError`` and a ``FileNotFoundError``.
            FileExistsError: the checkpoint has variables but no tables. Nothing was changed.
            CheckpointError: the checkpoint is damaged or unverified, or contains other tables. Nothing was changed.
            NoRoomForCopyError: there is too little memory for a copy. Nothing was changed.
            tf.errors.OpError: the pipeline has failed, a table has too little space, or TensorFlow's restore failed.
        """
        rename = rename or {}
        check_all({"sess": _SESSION, "allow_unverified": boolean(), "allow_missing": Names(), "rename": _NAMES},
                  {"sess": sess, "allow_unverified": allow_unverified, "allow_missing": allow_missing,
                   "rename": rename})
        GraphState.require_not_ended(sess.graph, "Nothing was changed. Call asc.init(), build the graph again, and "
                                     "then call restore()")
        allow_missing = {*allow_missing, *os.environ.get("ASCPIPE_ALLOW_MISSING", "").split(",")}
        state = _state_with_tables(sess.graph)
        tensorflow_part.complete(self, sess.graph)
        given, save_path = save_path, _dense_path(sess.graph, save_path)
        if state is not None:
            PathText(0, 4096, optional=True).check("save_path", save_path)
            Process.current().running_pipeline().background.settle()
            save_path = save_path and _version_asked(Process.current(), save_path)
            if save_path and taking_over.is_requested(self, state, save_path):
                with taking_over.converted(state, sess.graph, save_path) as prefix:
                    self.restore(sess, prefix, allow_unverified, allow_missing, rename)
                return
        if state is None or not save_path or not _has_tables(self, state, sess.graph, save_path, allow_missing):
            with tensorflow_part.logged_as(given):
                patches.SAVER_RESTORE.plain(self, sess, save_path)
            return

        others = tensorflow_part.tables_left_out(self, state, sess.graph) if Process.current().is_plain else []
        if others and Process.current().is_first("tables of a var_list"):
            _log.warning(_LEFT_OUT, ", ".join(map(repr, others)))

        def restore_dense(prefix: Optional[str]) -> None:
            if prefix is not None:
                with tensorflow_part.logged_as(save_path):
                    patches.SAVER_RESTORE.plain(self, sess, prefix)

        restore_checkpoint(state, save_path, restore_dense, functools.partial(state.attach, sess), Differences(
            allow_unverified, allow_missing, advice_for(state, sess.graph, save_path), _saved_names(state, rename)))
        Checkpoints.of(Process.current()).version_is_restored = True


def _saved_by_rank_0(pipeline: Pipeline, save_path: str, step: Optional[int], background: bool) -> str:
    """Wait until rank 0 has saved a checkpoint that the program may read next. Return the checkpoint's prefix."""
    saved = save_path if step is None else "{}-{}".format(save_path, step)
    directory, base = os.path.split(save_path)
    if not background and pipeline.follower is not None and not pipeline.follower.await_end(
            prefix_of(directory, base, step)):
        _log.debug("rank %d: rank 0 does not save %s now", pipeline.rank, saved)
    return saved


def _state_with_tables(graph: tf.Graph) -> Optional[GraphState]:
    """Return the state of a graph, or None if the graph has no tables or reads its tables from files.

    If the start of the graph's pipeline was deferred, the pipeline is started first.

    Raises:
        RuntimeError: the pipeline of the graph was not started.
    """
    state = GraphState.known(graph)
    if state is None or not state.tables or state.served is not None:
        return None
    Process.current().deferred.start(graph)
    if not state.started:
        raise CallOrderError("Tables can be saved and restored only after their pipeline has started. Call "
                             "asc.start() first")
    return state


def _dense_path(graph: tf.Graph, prefix: str) -> str:
    """Return the prefix from which TensorFlow restores variables.

    During an export, the result is the prefix of the verified files.
    """
    state = GraphState.known(graph)
    return prefix if state is None or state.served is None else state.served.dense_path(prefix)


def _saved_names(state: GraphState, rename: Mapping[str, str]) -> Dict[str, str]:
    """Return a dict: name of a table in the program -> different name of the table in the checkpoint."""
    saved = [name for name, table in state.tables.items() if table.is_save]
    old_names = {new: old for old, new in rename.items() if new in saved}
    if len(old_names) < len(rename):
        raise ArgumentError("argument rename: {} has an unknown name or the same name twice. This program saves the "
                            "tables {}. Nothing was changed".format(list(rename.values()), ", ".join(saved)))
    return old_names


def _step_number(sess: Any, global_step: Any) -> Optional[int]:
    if global_step is None or isinstance(global_step, (int, np.integer)):
        return None if global_step is None else int(global_step)
    return int(training_util.global_step(sess, global_step))


def _has_tables(saver: tf.compat.v1.train.Saver, state: GraphState, graph: tf.Graph, prefix: str,
                allow_missing: Collection[str]) -> bool:
    """Return whether a checkpoint contains tables.

    Raises:
        MissingError: the checkpoint does not exist.
        NoTablesError: the checkpoint contains no tables, and this saver must restore tables.
    """
    directory, base = os.path.split(prefix)
    if os.path.isdir(os.path.join(directory, "sparse-" + base)) or is_delta(prefix):
        return True
    is_there = False
    with contextlib.suppress(tf.errors.NotFoundError):
        is_there = checkpoint_management.checkpoint_exists_internal(prefix)
    if not is_there:
        raise MissingError(prefix)
    missing = {table.table_name for table in state.tables.values() if table.is_save} - set(allow_missing)
    if missing:
        if not tensorflow_part.is_of_variables_alone(saver, state):
            raise NoTablesError(prefix, advice_for(state, graph, prefix)(""))
        _log.info("%s has no tables: the variables in the var_list of this Saver are restored, and the tables are "
                  "not changed", prefix)
    return False


def _version_asked(process: Process, prefix: str) -> str:
    """Return the prefix of the checkpoint that ``restore`` should load.

    The first restore after ``init`` uses the step ``restore_model_version``, if it is set, instead of the given step.
    """
    version = process.configuration.restore_model_version
    if version is None or Checkpoints.of(process).version_is_restored:
        return prefix
    directory, stem = os.path.split(prefix)
    base = re.sub(r"-\d+\Z", "", stem)
    found = complete_checkpoints(directory or os.curdir)
    steps = [one.step for one in found if one.link.stem == "{}-{}".format(base, one.step)]
    if version not in steps:
        raise SaverError("restore_model_version={} cannot be restored: {} has no complete checkpoint {} of that step. "
                         "It has steps {}. Nothing was changed".format(
                             version, directory or os.curdir, base, ", ".join(map(str, steps)) or "(none)"))
    return os.path.join(directory, "{}-{}".format(base, version))


def _note_saved(saver: tf.compat.v1.train.Saver, prefix: str, directory: str, base: str, latest_filename: str,
                meta_graph_suffix: str) -> None:
    """Write the name of a complete checkpoint to the ``checkpoint`` file.

    Then delete the oldest checkpoints if there are more than ``max_to_keep`` full checkpoints. Deltas are kept until
    the next full checkpoint. Without a limit (None or 0), all checkpoints that can be restored are kept. The file then
    contains only the last checkpoint, as in TensorFlow.
    """
    has_limit = bool(saver.saver_def.max_to_keep)
    parts = saver_parts.SaverParts(saver)
    deltas = [kept for kept in parts.last_checkpoints if is_delta(kept[0])]
    full = [kept for kept in parts.last_checkpoints if kept not in deltas]
    if is_delta(prefix):
        saver.set_last_checkpoints_with_time([*full, *deltas, (prefix, time.time())] if has_limit else [])
    else:
        saver.set_last_checkpoints_with_time(full)
        parts.record(prefix)
    checkpoint_management.update_checkpoint_state_internal(
        save_dir=directory, model_checkpoint_path=prefix, all_model_checkpoint_paths=saver.last_checkpoints,
        latest_filename=latest_filename, save_relative_paths=parts.saves_relative_paths)
    if not is_delta(prefix):
        kept = set() if has_limit else {found.prefix for found in complete_checkpoints(directory or os.curdir)}
        for delta in deltas_of(directory or os.curdir, base):
            if delta not in kept:
                _remove(delta)
    for old in parts.delete_old(meta_graph_suffix):
        if not checkpoint_management.checkpoint_exists_internal(old):
            _remove(old)  # TensorFlow keeps the other checkpoints for keep_checkpoint_every_n_hours


def _remove(prefix: str) -> None:
    try:
        remove_checkpoint(prefix)
    except NoCheckpointError:
        return  # the checkpoint was already removed
    except CheckpointError as error:
        _log.warning("an old checkpoint was not removed: %s", error)
