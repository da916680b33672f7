"""Model of ``bench/usual_model.py`` in a ``tf.Session`` loop with default settings. ``bench/usual_input.py`` has its
datasets.
"""
import contextlib
from typing import Any, Callable, ContextManager, Iterator

from bench import usual_input, usual_model
from bench.usual_model import CEILING, LABEL, ON_DISK, OURS, PLAIN, Setting


def step_of(setting: Setting, directory: str = "") -> ContextManager[Callable[[], object]]:
    """Yield a training step of the setting's side. ``directory`` is for rows on disk."""
    if setting.side in (OURS, ON_DISK):
        return _ours(setting, directory)
    return {PLAIN: _plain, CEILING: _ceiling}[setting.side](setting)


@contextlib.contextmanager
def _ours(setting: Setting, directory: str) -> Iterator[Callable[[], object]]:
    """Yield the step with our tables, through the API of programs for Ascend servers."""
    from bench.sessions import after, tf
    from mx_rec.core.asc.feature_spec import FeatureSpec
    from mx_rec.core.asc.helper import get_asc_insert_func
    from mx_rec.core.asc.manager import start_asc_pipeline
    from mx_rec.core.embedding import sparse_lookup
    from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
    from mx_rec.util.initialize import get_initializer, init, terminate_config_initializer

    init()
    tables = usual_model.tables(tf, setting, directory)
    dataset = usual_input.dataset_of(tf, setting)
    specs = [FeatureSpec(name, table_name=name) for name in usual_model.names(setting)]
    if not setting.modifies_graph:
        dataset = dataset.map(get_asc_insert_func(specs, is_training=True))
    iterator = tf.data.make_initializable_iterator(dataset.prefetch(setting.prefetch))
    batch = iterator.get_next()
    if setting.modifies_graph:
        columns = [sparse_lookup(table, batch[name], is_train=True, modify_graph=True)
                   for table, name in zip(tables, usual_model.names(setting))]
    else:
        columns = [sparse_lookup(table, spec, batch=batch, is_train=True) for table, spec in zip(tables, specs)]
    if setting.compute_ms:
        columns = [after(1e-3 * setting.compute_ms, tf.concat(columns, axis=1))]
    loss = usual_model.loss_of(tf, usual_model.with_dense(columns, batch), batch[LABEL])
    train = usual_model.update_tables(tf, setting, loss)
    if setting.modifies_graph:
        modify_graph_and_start_emb_cache()
        initializer = get_initializer(True)
    else:
        start_asc_pipeline()
        initializer = iterator.initializer
    with _running(tf, initializer, loss, train) as step:
        yield step
    terminate_config_initializer()


@contextlib.contextmanager
def _plain(setting: Setting) -> Iterator[Callable[[], object]]:
    """Yield the step with variables."""
    from bench.sessions import tf

    iterator = _iterator(tf, setting)
    batch = iterator.get_next()
    columns = usual_model.columns_of_variables(tf, setting, batch)
    loss = usual_model.loss_of(tf, usual_model.with_dense(columns, batch), batch[LABEL])
    with _running(tf, iterator.initializer, loss, usual_model.update_variables(tf, setting, loss)) as step:
        yield step


@contextlib.contextmanager
def _ceiling(setting: Setting) -> Iterator[Callable[[], object]]:
    """Yield the step with constant rows. No table can be faster."""
    from bench.sessions import tf

    iterator = _iterator(tf, setting)
    batch = iterator.get_next()
    columns = usual_model.columns_at_hand(tf, setting)
    loss = usual_model.loss_of(tf, usual_model.with_dense(columns, batch), batch[LABEL])
    with _running(tf, iterator.initializer, loss,
                  *usual_model.update_dense_part(tf, setting, loss, columns)) as step:
        yield step


def _iterator(tf: Any, setting: Setting) -> Any:
    dataset = usual_input.dataset_of(tf, setting)
    return tf.data.make_initializable_iterator(dataset.prefetch(setting.prefetch))


@contextlib.contextmanager
def _running(tf: Any, initializer: Any, *fetched: Any) -> Iterator[Callable[[], object]]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), initializer])
        yield lambda: session.run(fetched)
