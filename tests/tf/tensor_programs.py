"""The programs of ``tests.tf.programs`` with lookups of plain tensors: graph modification does the rest."""
import tensorflow as tf

from mx_rec.core.embedding import sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.initialize import get_initializer
from tests.tf import programs


def as_dict(batch):
    return batch


def as_tuple(batch):
    return batch["a"], batch["b"], batch["c"], batch["label"]


def as_list(batch):
    return [batch["a"], {"b": batch["b"], "c": batch["c"]}, batch["label"]]


def as_pair(batch):
    return {"a": batch["a"], "b": batch["b"], "c": batch["c"]}, batch["label"]


def read_dict(taken):
    return taken


def read_tuple(taken):
    return dict(zip(("a", "b", "c", "label"), taken))


def read_list(taken):
    return {"a": taken[0], **taken[1], "label": taken[2]}


def read_pair(taken):
    return {**taken[0], "label": taken[1]}


#: How a dataset gives its batches, and how a program finds a, b, c and label in what it took.
STRUCTURES = {"dict": (as_dict, read_dict), "tuple": (as_tuple, read_tuple), "list": (as_list, read_list),
              "pair": (as_pair, read_pair)}


def take(source, *, structure="dict", stages=lambda data: data.prefetch(4), one_shot=False):
    """An iterator over batches, None for a one-shot one, and a dict of its tensors."""
    pack, read = STRUCTURES[structure]
    data = stages(programs.dataset(source).map(pack))
    if one_shot:
        iterator = tf.compat.v1.data.make_one_shot_iterator(data)
    else:
        iterator = tf.compat.v1.data.make_initializable_iterator(data)
    return iterator, read(iterator.get_next())


class Program:
    """``programs.Program`` with tensors; its ids are those of the batch plus one minus one, which the dataset does.

    Attributes: as those of ``programs.Program``.
    """

    def __init__(self, source, optimizer, eval_source=None, rows=100, send_count=None, is_grad=(True, True, True),
                 modify=modify_graph_and_start_emb_cache, merge=do_merge_lookup, host_rows=0, **batches):
        self.user, self.item = (programs.table(name, rows, host_rows=host_rows) for name in ("user", "item"))
        self._is_grad = is_grad
        self.iterator, self.batch = take(source, **batches)
        self.rows = self._look_up(self.batch, send_count, is_train=True)
        self.loss = programs.model(self.rows, self.batch["label"])
        merge()
        rows, handles = programs.trained(self.user, self.item)
        self.train = programs.apply(self.loss, rows, optimizer(), handles=handles)
        if eval_source is not None:
            self.eval_iterator, self.eval_batch = take(eval_source, **batches)
            self.eval_rows = self._look_up(self.eval_batch, send_count, is_train=False)
            self.eval_loss = programs.model(self.eval_rows, self.eval_batch["label"], reuse=True)
        modify()

    def _look_up(self, batch, send_count, is_train):
        return [sparse_lookup(owner, (batch[key] + 1) - 1, send_count, is_train=is_train, batch=batch, is_grad=is_grad,
                              modify_graph=True)
                for owner, key, is_grad in zip((self.user, self.user, self.item), "abc", self._is_grad)]

    def initialise(self, session):
        session.run(get_initializer(True))
        session.run(tf.compat.v1.global_variables_initializer())


def losses(source, optimizer, **kwargs):
    """Losses of the model; the other side of ``programs.our_losses``."""
    init_arguments = {key: kwargs.pop(key) for key in ("use_dynamic", "use_dynamic_expansion") if key in kwargs}
    with programs.ascpipe(**init_arguments):
        program = Program(source, optimizer, **kwargs)
        with programs.session() as run:
            program.initialise(run)
            return [run.run([program.loss, program.train])[0] for _ in source]
