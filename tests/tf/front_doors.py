"""The same program through the three APIs: ``ascpipe.tf``, ``mx_rec``, and TensorFlow's feature columns.

`run` builds a program as users of an API write it, trains it, and reads all rows of its table. `plain` does the same
over a variable of TensorFlow. `tests.tf.front_door_changes` has the ways to train and the changes of gradients.
"""
import contextlib
import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import AscpipeError
from mx_rec.core.asc import FeatureSpec, get_asc_insert_func, start_asc_pipeline
from mx_rec.core.embedding import create_table, sparse_lookup
from mx_rec.graph.merge_lookup import do_merge_lookup
from mx_rec.graph.modifier import modify_graph_and_start_emb_cache
from mx_rec.util.variable import get_dense_and_sparse_variable
from tests.tf import columns, programs, twin_programs
from tests.tf.front_door_changes import CHANGES, WAYS
from tests.tf.twin_programs import RATE, contrib, quiet

v1 = tf.compat.v1
KEYS, DIM, BATCH, STEPS, FIRST = 30, 3, 6, 3, 0.5
DECAY = 0.1
APIS = ("ascpipe.tf", "mx_rec", "columns")


# ---- programs

class Program(NamedTuple):
    """A program, whatever API it calls.

    Attributes:
        way: name of a function of `WAYS`: how it makes its training op.
        changes: names of functions of `CHANGES`: what it does with gradients before it applies them.
        owner: whose optimizer it has: "own" of the API, "tensorflow", or "ascpipe".
        kind: of the optimizer.
        tier: where rows are.
        lookups: how many features look into the table.
        pooling: how the rows of an example become one.
        given: "tensors" or "features": how ids are declared; columns have tensors alone.
        frozen: how the rows are kept as they are, or "".
        penalty: what is added to the loss, or "".
        name: of the table.
    """

    way: str
    changes: Tuple[str, ...] = ()
    owner: str = "own"
    kind: str = "gradient_descent"
    tier: str = "device"
    lookups: int = 1
    pooling: str = "sum"
    given: str = "tensors"
    frozen: str = ""
    penalty: str = ""
    name: str = "user"

    def features(self) -> Sequence[str]:
        return ("ids", "others")[:self.lookups]


class Outcome(NamedTuple):
    """What a program computed; or the error that refused it, and after how many steps."""

    numbers: Optional[Dict[str, np.ndarray]]
    error: Optional[Exception] = None
    steps: int = 0


@functools.lru_cache(maxsize=None)
def source(pooling: str) -> Dict[str, Any]:
    """Arrays of all steps: ids that repeat within a batch; then each key twice, to read its row."""
    random = np.random.RandomState(4)
    read = np.repeat(np.arange(KEYS), 2).reshape(-1, 2)
    ids = {name: np.concatenate([random.randint(0, KEYS, (STEPS * BATCH, 2)) // 2 * 2, read])
           for name in ("ids", "others")}
    label = random.rand(len(ids["ids"])).astype(np.float32)
    if pooling != "bags":
        return {**ids, "label": label}
    bags = {}
    for name, each in ids.items():
        counts = np.concatenate([random.randint(1, 3, STEPS * BATCH), np.full(KEYS, 2)])
        places = [(row, place) for row, count in enumerate(counts) for place in range(count)]
        bags[name] = v1.SparseTensorValue(np.int64(places), np.concatenate(
            [row[:count] for row, count in zip(each, counts)]), (len(counts), 2))
    return {**bags, "label": label}


def dataset(program: Program) -> tf.data.Dataset:
    given = {name: tf.SparseTensor.from_value(value) if isinstance(value, v1.SparseTensorValue) else value
             for name, value in source(program.pooling).items()}
    return tf.data.Dataset.from_tensor_slices(given).batch(BATCH, drop_remainder=True)


def pooled(rows: tf.Tensor, pooling: str) -> tf.Tensor:
    """One row for each example, of the rows of its ids [BATCH, 2, DIM]."""
    if pooling == "mean":
        return tf.reduce_mean(rows, 1)
    found = tf.reduce_sum(rows, 1)
    return found / np.float32(np.sqrt(2)) if pooling == "sqrtn" else found


class Model:
    """What an API gives to the rest of a program.

    Attributes:
        api: its name; "" for TensorFlow.
        program: the program.
        rows: of each feature, float[BATCH, DIM].
        target: stands for the table in lists of variables and in pairs of gradients.
        loss: of the batch.
    """

    def __init__(self, api: str, program: Program, batch: Any, rows: List[tf.Tensor], target: Any) -> None:
        self.api, self.program, self.rows, self.target = api, program, rows, target
        # A resource variable is read once in a step, whatever is updated meanwhile.
        with v1.variable_scope("dense", use_resource=True):
            self.weights = v1.get_variable("weights", [2, DIM], initializer=v1.constant_initializer([
                [0.2, -0.1, 0.3], [0.1, 0.2, -0.2]]))
        numbers = sum(tf.reduce_sum(each * self.weights[place], 1) for place, each in enumerate(rows))
        self.loss = tf.reduce_mean(tf.square(numbers - batch["label"])) + self._penalty()

    def _penalty(self) -> Any:
        kind = self.program.penalty
        if kind == "l2 of rows":
            return DECAY * sum(map(tf.nn.l2_loss, self.rows))
        if kind == "regularizer":
            return contrib("layers").l2_regularizer(DECAY)(tf.concat(self.rows, 0))
        if kind == "l2 of variables":
            return DECAY * sum(tf.nn.l2_loss(each) for each in (v1.trainable_variables() if self.api else [
                self.weights]))
        return 0.0

    def everything(self) -> List[Any]:
        """All variables and the table, as users of the API list them."""
        if self.api == "ascpipe.tf":
            return [*v1.trainable_variables(), *asc.table_variables()]
        if self.api == "mx_rec":
            dense, sparse = get_dense_and_sparse_variable()
            return [*dense, *sparse]
        return v1.trainable_variables()

    def optimizer(self) -> Any:
        return optimizer(self.api, self.program)

    def of_both(self) -> Any:
        """An optimizer that finds tables by itself."""
        if not self.api:
            return self.optimizer()
        is_mx_recs = self.api == "mx_rec" and self.program.owner == "own" and self.program.kind == "adagrad"
        dense = _TENSORFLOWS["adagrad with 0.9" if is_mx_recs else self.program.kind]()
        return asc.Optimizer(dense=dense, sparse=self.optimizer if self.program.owner != "tensorflow" else dense)

    def changed(self, pairs: Any) -> Any:
        """The pairs after the program's changes."""
        pairs = [pair for pair in pairs if pair[0] is not None]
        for change in self.program.changes:
            pairs = CHANGES[change](self, pairs)
        return pairs


# ---- optimizers

_TENSORFLOWS: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: v1.train.GradientDescentOptimizer(RATE),
    "adagrad": lambda: v1.train.AdagradOptimizer(RATE),
    "adagrad with 0.9": lambda: v1.train.AdagradOptimizer(RATE, 0.9),
    "ftrl": lambda: v1.train.FtrlOptimizer(RATE, l2_regularization_strength=0.1),
    "lazy_adam": lambda: contrib("opt").LazyAdamOptimizer(RATE),
    "adam": lambda: v1.train.AdamOptimizer(RATE),
    "momentum": lambda: v1.train.MomentumOptimizer(RATE, 0.9),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(RATE),
    "adadelta": lambda: v1.train.AdadeltaOptimizer(RATE),
    "proximal_adagrad": lambda: v1.train.ProximalAdagradOptimizer(RATE),
    "adamax": lambda: contrib("opt").AdaMaxOptimizer(RATE),
    "nadam": lambda: contrib("opt").NadamOptimizer(RATE),
    "adamw": lambda: contrib("opt").AdamWOptimizer(0.01, RATE),
}
_ASCPIPES: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: asc.optimizers.GradientDescent(RATE),
    "adagrad": lambda: asc.optimizers.Adagrad(RATE),
    "adagrad with 0.9": lambda: asc.optimizers.Adagrad(RATE, initial_accumulator_value=0.9),
    "ftrl": lambda: asc.optimizers.Ftrl(RATE, l2_regularization_strength=0.1),
    "lazy_adam": lambda: asc.optimizers.LazyAdam(RATE),
}
_MX_RECS: Dict[str, Callable[[], Any]] = {
    "gradient_descent": lambda: programs.OPTIMIZERS["gradient_descent"](RATE),
    "adagrad": lambda: programs.OPTIMIZERS["adagrad"](RATE),  # its default is 0.9
    "adagrad with 0.9": lambda: programs.OPTIMIZERS["adagrad"](RATE, 0.9),
    "ftrl": lambda: programs.OPTIMIZERS["ftrl"](RATE, l2_regularization_strength=0.1),
    "lazy_adam": lambda: programs.OPTIMIZERS["lazy_adam"](RATE),
}
OF_TENSORFLOW_ALONE = [kind for kind in _TENSORFLOWS if kind not in _ASCPIPES]


def optimizer(api: str, program: Program) -> Any:
    """The optimizer of a program in an API. Users of columns have TensorFlow's, if they ask for no other."""
    makers = {"ascpipe.tf": _ASCPIPES, "mx_rec": _MX_RECS}.get(api, _TENSORFLOWS)
    if api and program.owner != "own":
        makers = {"tensorflow": _TENSORFLOWS, "ascpipe": _ASCPIPES}[program.owner]
    return makers[program.kind]()


# ---- the three APIs, and TensorFlow

SIZES = {"device": {"device_vocabulary_size": 50},
         "host": {"device_vocabulary_size": 16, "host_vocabulary_size": 60}}


def first() -> Any:
    return v1.constant_initializer(FIRST)


@contextlib.contextmanager
def by_ascpipe(program: Program) -> Any:
    """A program of ``ascpipe.tf``."""
    with twin_programs.ascpipe():
        table = asc.create_table(program.name, DIM, initializer=first(), **SIZES[program.tier])
        specs = [asc.FeatureSpec(name, table_name=table.table_name) for name in program.features()]
        data = dataset(program)
        if program.given == "features":
            data = data.map(asc.insert_function(specs, training=program.frozen != "evaluation"))
        iterator = v1.data.make_initializable_iterator(data.prefetch(4))
        batch = iterator.get_next()
        frozen = {"trainable": {"trainable": False}, "evaluation": {"training": False}}.get(program.frozen, {})
        rows = []
        for spec, name in zip(specs, program.features()):
            ids, given = (spec, {"batch": batch}) if program.given == "features" else (batch[name], {})
            if program.pooling == "bags":
                rows.append(asc.lookup_sparse(table, ids, combiner="sum", **given, **frozen))
            else:
                rows.append(pooled(asc.sparse_lookup(table, ids, **given, **frozen), program.pooling))
        yield Model("ascpipe.tf", program, batch, _after(program, rows), table.variable), iterator, asc.start


@contextlib.contextmanager
def by_mx_rec(program: Program) -> Any:
    """A program for Rec SDK."""
    with programs.ascpipe():
        table = create_table(key_dtype=tf.int64, dim=tf.TensorShape([DIM]), name=program.name, emb_initializer=first(),
                             **SIZES[program.tier])
        specs = [FeatureSpec(name, table_name=program.name) for name in program.features()]
        data = dataset(program)
        if program.given == "features":
            data = data.map(get_asc_insert_func(tgt_key_specs=specs, is_training=program.frozen != "evaluation"))
        iterator = v1.data.make_initializable_iterator(data.prefetch(10))
        batch = iterator.get_next()
        frozen = {"trainable": {"is_grad": False}, "evaluation": {"is_train": False}}.get(program.frozen, {})
        rows = []
        for spec, name in zip(specs, program.features()):
            ids, given = (spec, {"batch": batch}) if program.given == "features" else (
                batch[name], {"modify_graph": True})
            rows.append(pooled(sparse_lookup(table, ids, **given, **frozen), program.pooling))
        model = Model("mx_rec", program, batch, _after(program, rows), table.variable)
        if program.given == "tensors" and program.frozen != "evaluation":
            do_merge_lookup()
        yield model, iterator, (
            start_asc_pipeline if program.given == "features" else modify_graph_and_start_emb_cache)


def with_columns(side: str, program: Program) -> Any:
    """A program with feature columns. If ``side`` is "tensorflow", it is plain TensorFlow."""
    @contextlib.contextmanager
    def opened() -> Any:
        with tf.Graph().as_default(), _columns_on(side, program):
            v1.set_random_seed(1)
            iterator = v1.data.make_initializable_iterator(dataset(program).prefetch(4))
            batch = iterator.get_next()
            kinds = [tf.feature_column.categorical_column_with_identity(name, KEYS) for name in program.features()]
            combiner = "sum" if program.pooling == "bags" else program.pooling
            trainable = program.frozen not in ("trainable", "evaluation")
            if program.lookups == 1:
                made = [tf.feature_column.embedding_column(kinds[0], DIM, combiner, first(), trainable=trainable)]
            else:
                made = tf.compat.v1.feature_column.shared_embedding_columns(
                    kinds, DIM, combiner, first(), shared_embedding_collection_name=program.name, trainable=trainable)
            with v1.variable_scope(program.name):
                found = v1.feature_column.input_layer(batch, made)
            known = {id(each) for each in v1.trainable_variables()}
            rows = tf.split(found, program.lookups, axis=1) if program.lookups > 1 else [found]
            variables = [each for each in v1.trainable_variables() if id(each) in known]
            yield (Model("columns", program, batch, _after(program, rows), variables[0] if variables else None),
                   iterator, lambda: None)
    return opened()


@contextlib.contextmanager
def _columns_on(side: str, program: Program) -> Any:
    if side == "tensorflow":
        with columns.on("tensorflow"):
            yield
        return
    with columns.on("tensorflow"):
        asc.use_for_feature_columns(min_buckets=KEYS, **SIZES[program.tier])
        try:
            yield
        finally:
            asc.shutdown()


#: Forms of the gradient of a table: a row for each occurrence of an id, for each distinct id of a lookup, for each key.
FORMS = ("occurrences", "distinct", "sums")


@contextlib.contextmanager
def by_tensorflow(form: str, program: Program) -> Any:
    """A program over a variable, whose gradient has the rows of a form."""
    with tf.Graph().as_default():
        iterator = v1.data.make_initializable_iterator(dataset(program))
        batch = iterator.get_next()
        rows_of_unseen = 0.0 if program.frozen == "zeros" else FIRST
        variable = v1.get_variable("table", [KEYS, DIM], use_resource=False,
                                   initializer=v1.constant_initializer(rows_of_unseen))
        ids = [batch[name] for name in program.features()]
        flat = [each.values if isinstance(each, tf.SparseTensor) else tf.reshape(each, [-1]) for each in ids]
        rows = _rows_by(form, variable, flat)
        found = []
        for each, given in zip(rows, ids):
            if isinstance(given, tf.SparseTensor):
                found.append(tf.math.segment_sum(each, given.indices[:, 0]))
            else:
                found.append(pooled(tf.reshape(each, [BATCH, 2, DIM]), program.pooling))
        if program.frozen:
            found = [tf.stop_gradient(each) for each in found]
        yield Model("", program, batch, found, variable), iterator, lambda: None


def _rows_by(form: str, variable: tf.Variable, flat: List[tf.Tensor]) -> List[tf.Tensor]:
    if form == "occurrences":
        return [tf.nn.embedding_lookup(variable, each) for each in flat]
    if form == "distinct":
        found = []
        for each in flat:
            keys, places = tf.unique(each)
            found.append(tf.gather(tf.nn.embedding_lookup(variable, keys), places))
        return found
    keys, places = tf.unique(tf.concat(flat, 0))
    rows = tf.gather(tf.nn.embedding_lookup(variable, keys), places)
    return tf.split(rows, [tf.size(each) for each in flat], num=len(flat))


def _after(program: Program, rows: List[tf.Tensor]) -> List[tf.Tensor]:
    return [tf.stop_gradient(each) for each in rows] if program.frozen == "stop_gradient" else rows


# ---- runs

def run(api: str, program: Program) -> Outcome:
    """Train a program through an API."""
    opened = {"ascpipe.tf": by_ascpipe, "mx_rec": by_mx_rec,
              "columns": functools.partial(with_columns, "ascpipe")}[api](program)
    steps = [0]
    try:
        with quiet(), opened as (model, iterator, start):
            op = WAYS[program.way](model)
            start()
            return Outcome(_trained(model, iterator, op, steps))
    except (AscpipeError, RuntimeError) as error:
        return Outcome(None, error, steps[0])


@functools.lru_cache(maxsize=None)
def plain(form: str, program: Program) -> Outcome:
    """Train a program over a variable of TensorFlow."""
    with quiet(), by_tensorflow(form, program) as (model, iterator, _):
        return Outcome(_trained(model, iterator, WAYS[program.way](model), [0]))


def _trained(model: Model, iterator: Any, op: Any, steps: List[int]) -> Dict[str, np.ndarray]:
    rows, losses, weights = [], [], None
    fetched = [] if op is None else op
    options = tf.compat.v1.GraphOptions()
    options.rewrite_options.disable_meta_optimizer = not model.api  # it takes a third of the time
    with programs.session(graph_options=options) as session:
        session.run([iterator.initializer, v1.global_variables_initializer(), v1.local_variables_initializer()])
        for _ in range(STEPS):
            losses.append(session.run([model.loss, fetched])[0])
            steps[0] += 1
        for _ in range(KEYS // BATCH):
            read, weights = session.run([model.rows[0], model.weights])
            rows.append(read)
    return {"losses": np.array(losses), "rows": np.concatenate(rows), "weights": weights}
