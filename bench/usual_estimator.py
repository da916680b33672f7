"""Model of ``bench/usual_model.py``, trained by one call of a ``tf.estimator.Estimator`` with default settings."""
import tempfile
from typing import Any, Callable, Dict, List

from bench import usual_model
from bench.sessions import tf
from bench.usual_model import CEILING, OURS, PLAIN, Setting


class Turns(tf.estimator.SessionRunHook):
    """Hook that waits between steps for the number of next steps. ``steps_to_do`` returns the number, first
    after one step.
    """

    def __init__(self, steps_to_do: Callable[[], int]) -> None:
        self._steps_to_do = steps_to_do
        self._left = 1

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Stop the training if no steps are left."""
        self._left -= 1
        if not self._left:
            self._left = self._steps_to_do()
            if not self._left:
                run_context.request_stop()


class _Fetched(tf.estimator.SessionRunHook):
    """Hook that fetches a tensor in each step."""

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def before_run(self, run_context: Any) -> Any:
        """Return the tensor as an argument of the session."""
        return tf.estimator.SessionRunArgs(self._tensor)


class _Model:
    """Functions of an Estimator for one side. The FeatureSpecs are the same objects in all calls."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._specs: List[Any] = []
        if setting.side == OURS:
            from mx_rec.core.asc.feature_spec import FeatureSpec

            self._specs = [FeatureSpec(name, table_name=name) for name in usual_model.names(setting)]

    def input_fn(self) -> Any:
        """Return a dataset of features and labels."""
        dataset = tf.data.Dataset.from_tensor_slices(usual_model.batches(self._setting)).repeat()
        if self._setting.side == OURS:
            from mx_rec.core.asc.helper import get_asc_insert_func

            dataset = dataset.map(get_asc_insert_func(tgt_key_specs=self._specs, is_training=True))
        return dataset.prefetch(self._setting.prefetch)

    def of_tables(self, features: Dict[str, Any], labels: Any, mode: str) -> Any:
        """Build the model with our tables."""
        from mx_rec.core.asc.manager import start_asc_pipeline
        from mx_rec.core.embedding import sparse_lookup

        columns = [sparse_lookup(table, spec, batch=features, is_train=True)
                   for table, spec in zip(usual_model.tables(tf, self._setting), self._specs)]
        loss = usual_model.loss_of(tf, columns, labels)
        update = usual_model.update_tables(tf, self._setting, loss, tf.train.get_global_step())
        start_asc_pipeline()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update)

    def of_variables(self, features: Dict[str, Any], labels: Any, mode: str) -> Any:
        """Build the model with plain variables."""
        loss = usual_model.loss_of(tf, usual_model.columns_of_variables(tf, self._setting, features), labels)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=usual_model.update_variables(
            tf, self._setting, loss, tf.train.get_global_step()))

    def of_rows_at_hand(self, features: Dict[str, Any], labels: Any, mode: str) -> Any:
        """Build the model without lookups."""
        columns = usual_model.columns_at_hand(tf, self._setting)
        loss = usual_model.loss_of(tf, columns, labels)
        update, some = usual_model.update_dense_part(tf, self._setting, loss, columns, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update, training_hooks=[_Fetched(some)])


def train(setting: Setting, steps_to_do: Callable[[], int]) -> None:
    """Train a step, and then the numbers of steps that ``steps_to_do`` returns. Training stops at 0."""
    if setting.side == OURS:
        from mx_rec.util.initialize import init, terminate_config_initializer

        init()
    model = _Model(setting)
    model_fn = {OURS: model.of_tables, PLAIN: model.of_variables, CEILING: model.of_rows_at_hand}[setting.side]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        tf.estimator.Estimator(model_fn, model_dir=folder).train(model.input_fn, hooks=[Turns(steps_to_do)])
    if setting.side == OURS:
        terminate_config_initializer()
