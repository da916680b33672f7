"""``Saver``: TensorFlow's, which also saves and restores the sparse tables.

``Saver`` is for programs that name it; ``install`` gives the same to every ``tf.train.Saver`` of the process, as
programs of the incumbent expect it, and with them to Estimators and monitored sessions.
"""
import functools
import logging
import os
import re
import time
from typing import Any, Collection, Optional

import numpy as np
import tensorflow as tf
from tensorflow.python.training import checkpoint_management, training_util

from ascpipe.checkpoint import model_index
from ascpipe.checkpoint.errors import CheckpointError, NoCheckpointError, NoTablesError, NotSavedError
from ascpipe.checkpoint.retention import complete_checkpoints, deltas_of, is_delta, remove_checkpoint
from ascpipe.tf import internals, patches
from ascpipe.tf.checkpoints import tensorflow_part
from ascpipe.tf.checkpoints.missing_parts import MissingError, advice_for
from ascpipe.tf.checkpoints.restoring import restore_checkpoint
from ascpipe.tf.checkpoints.saving import Checkpoints, SaveRequest, begin_save, prefix_of, save_checkpoint, saved_part
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.validation import Having, IntegerScalar, Names, PathText, Text, boolean, check_all

_log = logging.getLogger(__name__)

_SESSION = Having("a session", "run", "graph")
_RULES_OF_SAVE = {"save_path": PathText(1, 1024), "latest_filename": Text(1, 50, optional=True),
                  "global_step": IntegerScalar(optional=True), "meta_graph_suffix": Text(1, 50)}


class Saver(tf.compat.v1.train.Saver):
    """Saves and restores dense variables and sparse tables together, as they are after one training step.

    Takes what ``tf.train.Saver`` takes. Tables are saved and restored whatever its ``var_list`` says, unless they were
    created with ``is_save=False``; beside a checkpoint ``dir/base-100`` they lie in ``dir/sparse-base-100``
    (docs/reference/checkpoints.md). In a graph without tables it is TensorFlow's.
    """

    @patches.SAVER_BUILD.by
    def _build(self, *args: Any, **kwargs: Any) -> None:
        tensorflow_part.build(self, functools.partial(patches.SAVER_BUILD.plain, self, *args, **kwargs))

    @patches.SAVER_SAVE.by
    def save(self, sess: Any, save_path: str, global_step: Any = None, latest_filename: Optional[str] = None,
             meta_graph_suffix: str = "meta", write_meta_graph: bool = True, write_state: bool = True,
             strip_default_attrs: bool = False, save_debug_info: bool = False, is_incremental_checkpoint: bool = False,
             save_delta: bool = False, background: bool = False) -> Optional[str]:
        """Save everything between two training steps; durable when this returns, except with ``background``.

        A save waits for one that goes on in the background. Of several ranks, rank 0 saves, and the others write their
        parts when it does, whatever their programs do then; on another rank this returns the name, once rank 0 has made
        the checkpoint, or goes on without. Arguments that are not explained are as TensorFlow has them.

        Args:
            sess: a session of a graph whose pipeline runs; no step of it may be under way in this thread.
            save_path: ``dir/base``, or ``dir/``, whose files have names without a base, as TensorFlow has it. The
                directory is made where it is not there.
            global_step: number or integer tensor that is added to the name, or None. A checkpoint of the same name is
                exchanged for the new one atomically; if nothing has changed since it was saved, it stays.
            is_incremental_checkpoint: without effect: ``init`` was told.
            save_delta: of the tables only what changed since the save before under this name, full or a delta, in
                ``dir/delta-sparse-base-step``. The first save of a training, and others where a delta is not possible,
                are full; the log says why. A full save removes the deltas before it, unless ``max_to_keep`` is None.
            background: return as soon as the rows on the device are copied; the rest is written while training goes
                on. The checkpoint exists once the ``checkpoint`` file names it; until then earlier ones are kept.
                ``wait_for_save`` waits for it, and so do the next save, a restore and the end of the pipeline.

        Returns:
            ``dir/base-step``, as ``restore`` takes it.

        Raises:
            RuntimeError: the graph has tables, and its pipeline was not started.
            NotSavedError: the disk refused; earlier checkpoints are as they were, and training may go on. Also where
                the save before, in the background, has failed, and in a session that only evaluates and has restored
                another state than the tables have; then this one was not begun.
            ValueError: an argument of the wrong type; a path that we refuse; ``latest_filename`` does not have 1 to 50
                characters.
            tf.errors.OpError: the pipeline has failed, or TensorFlow could not save its part; of another rank, the
                program of rank 0 fails.
        """
        check_all({"sess": _SESSION, "save_delta": boolean(), "background": boolean()},
                  {"sess": sess, "save_delta": save_delta, "background": background})
        state = _state_with_tables(sess.graph)
        tensorflow_part.complete(self, sess.graph)
        if state is None:
            saved_by_tensorflow: Optional[str] = patches.SAVER_SAVE.plain(
                self, sess, save_path, global_step, latest_filename, meta_graph_suffix, write_meta_graph, write_state,
                strip_default_attrs, save_debug_info)
            return saved_by_tensorflow
        check_all(_RULES_OF_SAVE, {"save_path": save_path, "latest_filename": latest_filename,
                                   "global_step": global_step, "meta_graph_suffix": meta_graph_suffix})
        process = Process.current()
        if not state.is_live(sess):
            raise NotSavedError(save_path, "this session reads the tables of a checkpoint that it has restored, and "
                                "without their optimizer slots; copy that checkpoint, or save where they are trained",
                                0, 0, "Nothing was written.")
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
            Checkpoints.of(process).last_saved = saved

        request = SaveRequest(pipeline, saved_part(pipeline, state), directory or os.curdir, base,
                              step, dense=not self._is_empty, delta=save_delta,
                              threshold=process.configuration.recent_key_count_threshold)
        if background:
            return begin_save(request, save_dense, describe, publish)
        return save_checkpoint(request, save_dense, publish)

    @patches.SAVER_RESTORE.by
    def restore(self, sess: Any, save_path: str, allow_unverified: bool = False,
                allow_missing: Collection[str] = ()) -> None:
        """Verify a checkpoint, then replace variables and tables by it, between two training steps.

        Batches that were submitted and not yet trained are trained upon what was restored. In a graph that only
        evaluates the tables are left as they are: from then on ``sess`` reads the rows of the checkpoint, of which it
        has a copy of its own, unless that is the state that the tables have. Of several ranks, all load their parts of
        the tables when rank 0 restores; another rank restores the variables. The first restore after
        ``init(restore_model_version=...)`` takes that step instead of the one in ``save_path``.

        Args:
            sess: a session of a graph whose pipeline runs.
            save_path: as ``save`` returned it.
            allow_unverified: also a checkpoint without our manifest, such as Rec SDK's; ``ASCPIPE_ALLOW_UNVERIFIED=1``
                says the same for programs that cannot.
            allow_missing: names of tables that may be missing in it, or empty; ``"table/slot"`` of an optimizer slot.
                ``ASCPIPE_ALLOW_MISSING="table,table/slot"`` adds to them. A saver whose ``var_list`` names no table
                restores these variables alone from a checkpoint without tables, and does not need it.

        Raises:
            RuntimeError: the graph has tables, and its pipeline was not started.
            ValueError: an argument of the wrong type; no checkpoint of the ``restore_model_version`` of ``init``.
            MissingError: there is no such checkpoint (E520; also ``ValueError``, ``tf.errors.NotFoundError`` and
                ``FileNotFoundError``).
            FileExistsError: it has variables and no tables; nothing was changed.
            CheckpointError: it is damaged, unverified, or not of such tables; nothing was changed.
            NoRoomForCopyError: too little memory for a copy; nothing was changed.
            tf.errors.OpError: the pipeline has failed, there is too little room, or TensorFlow could not restore its
                part.
        """
        check_all({"sess": _SESSION, "allow_unverified": boolean(), "allow_missing": Names()},
                  {"sess": sess, "allow_unverified": allow_unverified, "allow_missing": allow_missing})
        allow_missing = {*allow_missing, *os.environ.get("ASCPIPE_ALLOW_MISSING", "").split(",")}
        state = _state_with_tables(sess.graph)
        tensorflow_part.complete(self, sess.graph)
        given, save_path = save_path, _dense_path(sess.graph, save_path)
        if state is not None:
            PathText(0, 4096, optional=True).check("save_path", save_path)
            Process.current().running_pipeline().background.settle()
            save_path = save_path and _version_asked(Process.current(), save_path)
        if state is None or not save_path or not _has_tables(self, state, sess.graph, save_path, allow_missing):
            with tensorflow_part.logged_as(given):
                patches.SAVER_RESTORE.plain(self, sess, save_path)
            return

        def restore_dense(prefix: Optional[str]) -> None:
            if prefix is not None:
                with tensorflow_part.logged_as(save_path):
                    patches.SAVER_RESTORE.plain(self, sess, prefix)

        restore_checkpoint(
            state, save_path, restore_dense, functools.partial(state.attach, sess), allow_unverified=allow_unverified,
            allow_missing=allow_missing, advice=advice_for(state, sess.graph, save_path))
        Checkpoints.of(Process.current()).version_is_restored = True


def _saved_by_rank_0(pipeline: Pipeline, save_path: str, step: Optional[int], background: bool) -> str:
    """What another rank's save does: what follows may look for the checkpoint, as an evaluation does."""
    saved = save_path if step is None else "{}-{}".format(save_path, step)
    directory, base = os.path.split(save_path)
    if not background and pipeline.follower is not None and not pipeline.follower.await_end(
            prefix_of(directory, base, step)):
        _log.debug("rank %d: rank 0 does not save %s now", pipeline.rank, saved)
    return saved


def _state_with_tables(graph: tf.Graph) -> Optional[GraphState]:
    """The state of a graph with tables; None: it has none, or reads them from files. Raises ``RuntimeError``
    before it is started."""
    state = GraphState.known(graph)
    if state is None or not state.tables or state.served is not None:
        return None
    Process.current().deferred.start(graph)
    if not state.started:
        raise RuntimeError("tables are saved and restored once their pipeline runs: call ascpipe.tf.start(), or "
                           "start_asc_pipeline(), before")
    return state


def _dense_path(graph: tf.Graph, prefix: str) -> str:
    """From where TensorFlow restores its part; of a graph that is made to be exported, what was verified."""
    state = GraphState.known(graph)
    return prefix if state is None or state.served is None else state.served.dense_path(prefix)


def _step_number(sess: Any, global_step: Any) -> Optional[int]:
    if global_step is None or isinstance(global_step, (int, np.integer)):
        return None if global_step is None else int(global_step)
    return int(training_util.global_step(sess, global_step))


def _has_tables(saver: tf.compat.v1.train.Saver, state: GraphState, graph: tf.Graph, prefix: str,
                allow_missing: Collection[str]) -> bool:
    """Whether a checkpoint has a sparse part. Raises ``MissingError`` if there is no checkpoint at all."""
    directory, base = os.path.split(prefix)
    if os.path.isdir(os.path.join(directory, "sparse-" + base)) or is_delta(prefix):
        return True
    try:
        is_there = checkpoint_management.checkpoint_exists_internal(prefix)
    except tf.errors.NotFoundError:
        is_there = False
    if not is_there:
        raise MissingError(prefix)
    missing = {table.table_name for table in state.tables.values() if table.is_save} - set(allow_missing)
    if missing:
        if not tensorflow_part.is_of_variables_alone(saver, state):
            raise NoTablesError(prefix, advice_for(state, graph, prefix)(""))
        _log.info("%s has no tables: the variables in the var_list of this Saver are restored, and the tables stay as "
                  "they are", prefix)
    return False


def _version_asked(process: Process, prefix: str) -> str:
    """The prefix of the step that ``init`` was told to restore, in the first restore after it."""
    version = process.configuration.restore_model_version
    if version is None or Checkpoints.of(process).version_is_restored:
        return prefix
    directory, stem = os.path.split(prefix)
    base = re.sub(r"-\d+\Z", "", stem)
    found = complete_checkpoints(directory or os.curdir)
    steps = [one.step for one in found if one.link.stem == "{}-{}".format(base, one.step)]
    if version not in steps:
        raise ValueError("restore_model_version={}: {} has no complete checkpoint {} of that step; there are {}. "
                         "Nothing was changed".format(version, directory, base, ", ".join(map(str, steps)) or "none"))
    return os.path.join(directory, "{}-{}".format(base, version))


def _note_saved(saver: tf.compat.v1.train.Saver, prefix: str, directory: str, base: str, latest_filename: str,
                meta_graph_suffix: str) -> None:
    """Name a checkpoint that is complete in the ``checkpoint`` file, then remove those that are not kept.

    ``max_to_keep`` limits the number of full checkpoints. Deltas are kept until the next full checkpoint. Without a
    limit (``max_to_keep`` is None or 0), all checkpoints that can be restored are kept, and the file names the last
    one, as in TensorFlow.
    """
    has_limit = bool(saver.saver_def.max_to_keep)
    parts = internals.SaverParts(saver)
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
            _remove(old)  # else TensorFlow keeps it, as keep_checkpoint_every_n_hours says


def _remove(prefix: str) -> None:
    try:
        remove_checkpoint(prefix)
    except NoCheckpointError:
        return  # removed already
    except CheckpointError as error:
        _log.warning("old checkpoint not removed: %s", error)
