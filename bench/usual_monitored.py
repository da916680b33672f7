"""Typical model under a ``MonitoredSession`` with hooks, in this process and with a private daemon."""
import contextlib
from typing import Any, Callable, Iterator, Sequence

from bench import usual_model
from bench.usual_model import LABEL, PREFETCH, Setting


@contextlib.contextmanager
def monitored(setting: Setting, hooks: Sequence[Any] = ()) -> Iterator[Callable[[], object]]:
    """Yield a step. The first step has been trained."""
    from bench.sessions import running_pipeline, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import sparse_lookup

    with tf.Graph().as_default(), running_pipeline():
        features, labels = usual_model.batches(setting)
        specs = [FeatureSpec(name, table_name=name) for name in usual_model.names(setting)]
        dataset = tf.data.Dataset.from_tensor_slices({**features, LABEL: labels}).repeat()
        iterator = tf.data.make_initializable_iterator(
            dataset.map(get_asc_insert_func(specs, is_training=True)).prefetch(PREFETCH))
        batch = iterator.get_next()
        columns = [sparse_lookup(table, spec, batch=batch, is_train=True)
                   for table, spec in zip(usual_model.tables(tf, setting), specs)]
        loss = usual_model.loss_of(tf, columns, batch[LABEL])
        train = usual_model.update_tables(tf, setting, loss, tf.train.get_or_create_global_step())
        start_asc_pipeline()
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        with tf.train.MonitoredSession(hooks=list(hooks)) as session:
            session.run(train)
            yield lambda: session.run([loss, train])
        tf.summary.FileWriterCache.clear()
