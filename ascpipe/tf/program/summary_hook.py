"""``SummaryHook``, whose thread writes scalars of the pipeline for TensorBoard.

When scalars are due, the step also fetches the global step. The thread then queries the daemon, computes the scalars
and writes them. If the thread is still busy when the next scalars are due, they are written after a later step.
"""
import logging
import os
import random
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional

import tensorflow as tf

from ascpipe.config import load_settings
from ascpipe.errors import ArgumentError, AscpipeError, MissingFromGraphError
from ascpipe.tf import patches
from ascpipe.tf.graph.graph_state import GraphState
from ascpipe.tf.running.column_choice import Columns
from ascpipe.tf.running.pipeline import Pipeline
from ascpipe.tf.running.process import Process
from ascpipe.tf.running.step_figures import Answer, scalars
from ascpipe.tf.validation import Having, Integer, Number, PathText, checked

_DEFAULT_S = 10.0
_LONGEST_S = 7 * 24 * 3600
_SAMPLE_S = 0.05  # mean time between two samples; it varies, so that samples are not synchronized with steps
_END_S = 5.0  # timeout for the last scalars, because the daemon may not answer
_PREFIX = "ascpipe/"

_log = logging.getLogger(__name__)


class SummaryHook(tf.estimator.SessionRunHook):
    """Hook for monitored sessions and Estimators that writes scalars of the pipeline to an event file.

    Names of scalars begin with ``ascpipe/`` (docs/reference/metrics.md). Steps do not wait for the hook. Rank N > 0
    writes to the subfolder ``rank-N`` of ``output_dir``.

    Args:
        save_steps: number of session runs between two writes, at least 1.
        save_secs: seconds between two writes, in (0, 604800]. It defaults to 10 if ``save_steps`` is None.
        output_dir: str, folder of the event file.
        summary_writer: a ``tf.compat.v1.summary.FileWriter``, which replaces ``output_dir``.

    Raises:
        ValueError: an argument has the wrong type or is out of range. Both or none of ``output_dir`` and
            ``summary_writer`` were passed, or ``save_steps`` was passed together with ``save_secs``.
        RuntimeError: the graph has no global step. ``begin`` raises this error.
        EnvironmentError: ``init`` was not called. ``begin`` raises this error.
    """

    @checked(save_steps=Integer(1, optional=True), output_dir=PathText(1, 4096, optional=True),
             save_secs=Number(0.0, _LONGEST_S, open_low=True, optional=True),
             summary_writer=Having("a FileWriter", "add_summary", "flush", optional=True))
    def __init__(self, save_steps: Optional[int] = None, save_secs: Optional[float] = None,
                 output_dir: Optional[str] = None, summary_writer: Any = None) -> None:
        if save_steps is not None and save_secs is not None:
            raise ArgumentError("asc.SummaryHook has both save_steps={} and save_secs={}. Pass one of them".format(
                save_steps, save_secs))
        if (output_dir is None) == (summary_writer is None):
            raise ArgumentError("asc.SummaryHook has {} output_dir {} summary_writer. Pass one of them; for an "
                                "Estimator, pass output_dir=estimator.model_dir".format(
                                    *(("neither", "nor") if output_dir is None else ("both", "and"))))
        self._save_steps = save_steps
        self._save_s = None if save_steps is not None else float(save_secs or _DEFAULT_S)
        self._folder = output_dir
        self._writer = summary_writer
        self._global_step: Any = None
        self._thread: Optional[_Writing] = None
        self._runs = 0
        self._due_at = 0.0

    def begin(self) -> None:
        """Find the global step and open the event file."""
        rank = Process.current().configuration.rank_id
        self._global_step = tf.compat.v1.train.get_global_step()
        if self._global_step is None:
            raise MissingFromGraphError("asc.SummaryHook needs a global step, but the graph has none. Call "
                                        "tf.train.get_or_create_global_step()")
        if self._folder is not None:
            folder = self._folder if rank == 0 else os.path.join(self._folder, "rank-{}".format(rank))
            self._writer = tf.compat.v1.summary.FileWriterCache.get(folder)

    def after_create_session(self, session: tf.compat.v1.Session, coord: Any) -> None:
        """Start the thread. The thread ends when the session ends, even if the session fails."""
        self._runs = 0
        self._due_at = 0.0
        self._thread = _Writing(self._writer, coord)
        self._thread.start()

    def before_run(self, run_context: Any) -> Any:
        """Fetch the global step if scalars are due, and in the first run."""
        if self._save_s is not None:
            due = time.monotonic() >= self._due_at
        else:
            due = self._runs % (self._save_steps or 1) == 0
        self._runs += 1
        return tf.estimator.SessionRunArgs(self._global_step) if due else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Pass the number of the step to the thread."""
        if run_values.results is not None and self._thread is not None:
            self._due_at = time.monotonic() + (self._save_s or 0.0)
            self._thread.hand(int(run_values.results))

    def end(self, session: tf.compat.v1.Session) -> None:
        """Write the last scalars, with a timeout of 5 seconds."""
        if self._thread is not None:
            self._thread.hand(int(session.run(self._global_step)), is_last=True)
            self._thread.join(_END_S)
            self._thread = None


class _Job(NamedTuple):
    """Request for the scalars of the interval whose last step is ``step``."""

    step: int
    at: float


class _Writing(threading.Thread):
    """Thread that writes scalars. The thread also samples whether a step is waiting.

    Args:
        writer: writer of the event file.
        coord: coordinator of the session. The thread ends when the coordinator stops.
    """

    def __init__(self, writer: Any, coord: Any) -> None:
        super().__init__(name="ascpipe-summaries", daemon=True)
        self._writer = writer
        self._coord = coord
        self._handed = threading.Event()
        self._job: Optional[_Job] = None
        self._last: Optional[_Job] = None
        self._before: Optional[_Job] = None
        self._answer: Optional[Answer] = None
        self._looks = self._waits = 0
        self._has_warned = False

    def hand(self, step: int, *, is_last: bool = False) -> None:
        """Request the scalars of the interval that ends with ``step``, unless the thread is busy."""
        job = _Job(step, time.monotonic())
        if is_last:
            self._last = job
        elif self._job is None:
            self._job = job
        self._handed.set()

    def run(self) -> None:
        """Write requested scalars until the last scalars are written or the session ends."""
        while True:
            self._handed.wait(random.uniform(0.5, 1.5) * _SAMPLE_S)
            self._handed.clear()
            if self._job is not None:
                self._write(self._job, is_current=self._last is None)
                self._job = None
            if self._last is not None:
                self._write(self._last, is_current=True)
                return
            if self._coord.should_stop():
                return
            self._look()

    def _look(self) -> None:
        pipeline = _pipeline()
        if pipeline is not None:
            self._looks += 1
            self._waits += pipeline.waits()

    def _write(self, job: _Job, *, is_current: bool) -> None:
        """Write the scalars of a job, including values of the daemon's current status if ``is_current`` is True."""
        values = {}
        answer = self._ask() if is_current else None
        if self._before is not None and job.at > self._before.at and job.step > self._before.step:
            values["steps_per_s"] = (job.step - self._before.step) / (job.at - self._before.at)
            if self._looks:
                values["step_waits"] = self._waits / self._looks
            if self._answer is not None and answer is not None:
                values.update(scalars(self._answer, answer))
        self._before = job
        self._answer = answer
        self._looks = self._waits = 0
        if values:
            self._writer.add_summary(_summary(values), job.step)
            self._writer.flush()

    def _ask(self) -> Optional[Answer]:
        """Return the daemon's status. If the daemon does not answer, log a warning once and return None."""
        pipeline = _pipeline()
        at = time.monotonic()
        if pipeline is None:
            return None
        try:
            return Answer(pipeline.link.status(), at)
        except (AscpipeError, OSError) as error:  # OSError: no file descriptors are left
            if not self._has_warned:
                # An error object in the log record would keep the pipeline alive, so only the text is passed.
                _log.warning("No scalars of the pipeline are written: %s", str(error))
            self._has_warned = True
            return None


def _pipeline() -> Optional[Pipeline]:
    """Return the running pipeline, or None if no pipeline runs. The program may end a pipeline at any time."""
    try:
        return Process.current().pipeline
    except OSError:  # the program has called shutdown
        return None


def _summary(values: Dict[str, float]) -> tf.compat.v1.Summary:
    parts: List[Any] = [tf.compat.v1.Summary.Value(tag=_PREFIX + tag, simple_value=value)
                        for tag, value in sorted(values.items())]
    return tf.compat.v1.Summary(value=parts)


@patches.CALL_MODEL_FN.by
def _call_model_fn(self: Any, features: Any, labels: Any, mode: Any, config: Any) -> Any:
    models = Columns.of(Process.current()).models if Process.is_initialised() else None
    if models is not None:
        models.begin(self.model_dir, mode)
    state = GraphState.known(tf.compat.v1.get_default_graph())
    if state is not None:
        state.mode = mode
    spec = patches.CALL_MODEL_FN.plain(self, features, labels, mode, config)
    if models is not None:
        models.end(self.model_dir)
    if mode != tf.estimator.ModeKeys.TRAIN or state is None or not state.tables:
        return spec
    seconds = load_settings().summary_s
    if not seconds:
        return spec
    return spec._replace(training_hooks=[*spec.training_hooks,
                                         SummaryHook(save_secs=seconds, output_dir=self.model_dir)])
