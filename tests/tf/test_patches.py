"""What ascpipe replaces in TensorFlow is what ``ascpipe/tf/patches.py`` lists; little of it in a plain program; and the
end of a program gives it back."""
import functools
import json
import subprocess
import sys

import pytest
import tensorflow as tf

import ascpipe.tf as asc
from ascpipe.errors import UnsupportedTensorFlowError
from ascpipe.tf import patches
from ascpipe.tf.incumbent.ascend.iterations import set_iteration_per_loop
from mx_rec.util.initialize import init, terminate_config_initializer
from tests.support import tree
from tests.tf import programs

MOST_IN_A_PLAIN_PROGRAM = 17
ALWAYS = (None, patches.INCUMBENT, patches.ACCELERATOR_OPTIONS)  #: features that are no part of TensorFlow


def name_of(patch):
    return "{}.{}".format(patch.module, patch.path)


def is_of(api):
    """Whether programs of an API have a patch, of a class or a module."""
    return lambda patch: not patch.of_graphs and (api == "mx_rec" or patch.feature not in (
        patches.INCUMBENT, patches.ACCELERATOR_OPTIONS, patches.HOST_OPS))


# ---- how many there are

@pytest.fixture(scope="module")
def said_by_both():
    """By API, and by what a program has used: the attributes that are replaced then."""
    done = subprocess.run([sys.executable, "-m", "tests.support.programs.plain_and_more"], cwd=str(tree.ROOT),
                          timeout=100, stdout=subprocess.PIPE, check=True)
    return dict(zip(("ascpipe", "mx_rec"), map(json.loads, done.stdout.splitlines())))


@pytest.fixture(params=["ascpipe", "mx_rec"])
def said(request, said_by_both):
    """One API, and what ``said_by_both`` has of it."""
    return request.param, said_by_both[request.param]


@pytest.mark.timeout_s(150)
def test_a_plain_program_has_few_patches_and_one_without_init_has_none(said):
    api, replaced = said
    assert replaced["init"] == replaced["plain"]
    assert len(replaced["plain"]) <= MOST_IN_A_PLAIN_PROGRAM, "\n".join(replaced["plain"])
    assert replaced["plain"] == sorted(name_of(each) for each in filter(is_of(api), patches.PATCHES)
                                       if each.feature in ALWAYS)
    assert api == "mx_rec" or replaced["nothing"] == []


@pytest.mark.timeout_s(150)
@pytest.mark.parametrize("what, feature", [("host ops", patches.HOST_OPS), ("Keras", patches.KERAS),
                                           ("Estimators", patches.ESTIMATORS), ("columns", patches.COLUMNS)])
def test_the_first_use_of_a_feature_brings_its_patches_and_no_others(said, what, feature):
    api, replaced = said
    if what not in replaced:
        assert api != "mx_rec" and feature is patches.HOST_OPS
        return
    before = list(replaced)[list(replaced).index(what) - 1]
    assert sorted(set(replaced[what]) - set(replaced[before])) == sorted(
        name_of(each) for each in patches.PATCHES if each.feature is feature)


@pytest.mark.timeout_s(150)
def test_all_that_is_replaced_is_listed_and_given_back_by_each_way_to_end(said):
    api, replaced = said
    assert replaced["columns"] == sorted(name_of(each) for each in filter(is_of(api), patches.PATCHES))
    assert replaced["the end"] == replaced["reset"] == sorted(name_of(each) for each in patches.PATCHES if each.stays)
    assert replaced["another init"] == replaced["columns"]


# ---- each is undone

def begun(api):
    """Begin a program that has used all of TensorFlow that patches are for."""
    (asc.init if api == "ascpipe" else init)()
    for patch in patches.PATCHES:
        if patch.feature is not None:
            patch.feature.use()


def now(patch, graph):
    """What is in the place of a patch."""
    if patch.of_graphs:
        own = getattr(graph, patch.path.split(".")[-1])
        return own if isinstance(own, functools.partial) else None
    return vars(patch._owner()).get(patch._name())


@pytest.mark.parametrize("patch", patches.PATCHES, ids=[patch.path for patch in patches.PATCHES])
def test_each_way_to_end_a_program_undoes_each_patch_and_the_next_init_applies_it_again(patch):
    for api, end in (("ascpipe", asc.shutdown), ("ascpipe", asc.reset), ("mx_rec", terminate_config_initializer)):
        tf.compat.v1.reset_default_graph()
        try:
            begun(api)
            graph = tf.compat.v1.get_default_graph()
            programs.table("user")
            plain = None if patch.of_graphs else patch.plain
            assert now(patch, graph) is not plain
            replacement = now(patch, graph)
            end()
            assert now(patch, graph) is (replacement if patch.stays else plain)
        finally:
            asc.shutdown()


def test_every_patch_says_what_it_is_for_and_stands_in_the_documents():
    text = (tree.ROOT / "docs/how-to/from-mx_rec.md").read_text()
    for patch in patches.PATCHES:
        assert patch.purpose
        assert "`{}`".format(patch.path) in text, patch.path


def test_undo_gives_a_session_its_own_methods_back(monkeypatch):
    monkeypatch.setattr(patches, "PATCHES", [])
    number = tf.compat.v1.get_variable("number", [], tf.int32, tf.compat.v1.zeros_initializer())
    with tf.compat.v1.Session() as session:
        loop = set_iteration_per_loop(session, number.assign_add(1).op, 3)
        session.run(number.initializer)
        session.run(loop)
        assert session.run(number) == 3
        patches.undo()
        session.run(loop)
        assert session.run(number) == 4


def test_a_patch_that_was_never_applied_is_undone_without_effect():
    patch = patches.Patch("tensorflow.python.framework.ops", "Graph.of_nobody", "a test", is_new=True)
    patches.PATCHES.remove(patch)
    patch.undo()
    assert patch.plain is None
    patch.by(1)
    patch.put()
    assert tf.Graph.of_nobody == 1
    patch.undo()
    patch.undo()
    with pytest.raises(AttributeError):
        tf.Graph.of_nobody  # noqa: B018


@pytest.mark.parametrize("module, path", [("tensorflow.python.framework.ops", "Graph.of_nobody"),
                                          ("tensorflow.python.framework.ops", "Nothing.finalize"),
                                          ("tensorflow.python.framework.of_nobody", "Graph.finalize")])
def test_init_fails_if_tensorflow_has_no_attribute_to_replace(module, path):
    patch = patches.Patch(module, path, "a test")
    patch.by(1)
    try:
        with pytest.raises(UnsupportedTensorFlowError, match=r"E276: TensorFlow .* has no {}\.{}, which ascpipe".format(
                module.replace(".", r"\."), path.replace(".", r"\."))):
            asc.init()
    finally:
        patches.PATCHES.remove(patch)
        asc.shutdown()
    asc.init()  # nothing is left
    asc.shutdown()


# ---- in which order things are done

MODES = {"train": "train", "evaluate": "eval", "predict": "infer", "export": "infer"}


IMPORTS = (["tensorflow", "tensorflow_estimator", "tensorflow.keras"], ["ascpipe.tf"], ["mx_rec"])


@pytest.mark.timeout_s(240)
@pytest.mark.parametrize("orders, imports", [
    ("first", IMPORTS[0]), ("second", IMPORTS[1]),
    *(pytest.param("all", imports, marks=pytest.mark.long) for imports in IMPORTS)],
    ids=lambda each: each if isinstance(each, str) else each[0])
def test_no_order_of_imports_init_and_first_uses_leaves_tables_out(orders, imports):
    """Columns, models, Estimators and hooks that were made before ``init``, after it, or in a program before."""
    done = subprocess.run([sys.executable, "-m", "tests.support.programs.first_uses", orders, *imports], check=True,
                          cwd=str(tree.ROOT), timeout=200, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    came = json.loads(done.stdout)
    assert len(came) == (34 if orders == "all" else 17)
    for order, what in came.items():
        if order == "column_without_a_program":
            assert what == ["InitializationError", "E262: ascpipe is not initialized. Call asc.init() first"]
        elif "linear" in order or order == "columns_of_a_program_before":
            assert what == ["linear_model/words/weights"], order
        elif "column" in order or "layer" in order:
            assert len(what) == 1, order
            assert what[0].endswith("embedding_weights"), order
        elif "model" in order:
            assert what[0] == "TableLookupError", order
            assert what[1].startswith("E267: Rows of tables 't' are the input of a Keras model"), order
        elif "estimator" in order:
            assert what == [MODES[order.split("_")[0]], order.startswith("export")], order
        elif order == "saver_hook_before_init":
            assert what[0] == "CheckpointPathError"
        else:
            assert order == "saver_hook_before_init_with_deltas"
            assert what == ["ascpipe.tf.checkpoints.saver_hook"] * 2
