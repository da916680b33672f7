"""The op library is checked before it is used."""
import json

import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry

import ascpipe
from ascpipe.layout import structs
from ascpipe.tfops import load

GOOD = {"tensorflow": tf.__version__, "cxx11_abi": tf.sysconfig.CXX11_ABI_FLAG, "layout": structs.layout_hash(),
        "ascpipe": ascpipe.__version__}


def check(**changes):
    load.check_info(dict(GOOD, **changes), tf.__version__, tf.sysconfig.CXX11_ABI_FLAG)


def test_the_library_of_this_tree_fits():
    check(**load.read_info())


@pytest.mark.parametrize(("field", "value", "what"), [
    ("tensorflow", "1.14.0", "TensorFlow 1.14.0"), ("cxx11_abi", 7, "C\\+\\+ ABI flag 7"), ("layout", 1, "layout 1,"),
    ("ascpipe", "0.0.9", "ascpipe 0.0.9"),
])
def test_a_library_built_for_something_else_is_refused_by_name(field, value, what):
    with pytest.raises(load.OpsMismatchError, match="built for (shared-memory )?{}.*Run: make build".format(what)):
        check(**{field: value})


def test_a_missing_library_says_how_to_build_it(tmp_path):
    with pytest.raises(load.OpsMissingError, match="have not been built. Run: make build"):
        load.read_info(tmp_path / "build_info.json")


def test_the_library_itself_tells_what_it_was_built_for():
    load.library().asc_build_info.restype = load.ctypes.c_char_p
    assert json.loads(load.library().asc_build_info().decode()) == load.read_info()


def registered_ops():
    """Names of all ops that TensorFlow knows."""
    if hasattr(op_def_registry, "get_registered_ops"):  # TensorFlow 1.15
        return list(op_def_registry.get_registered_ops())
    from tensorflow.python.client import pywrap_tf_session

    found = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList()))
    return [op.name for op in found.op]


def test_every_op_is_documented():
    load.load()
    ours = [op for op in registered_ops() if op.startswith("Asc")]
    assert sorted(ours) == [
        "AscApplied", "AscApplyAdagrad", "AscApplyAdagradByAddress", "AscApplyFtrl", "AscApplyGradientDescent",
        "AscApplyGradientDescentByAddress", "AscApplyLazyAdam", "AscApplyLazyAdamByAddress", "AscAttach",
        "AscBackward", "AscBagSplits", "AscChoose", "AscCombine", "AscCombineRowsGrad", "AscCombineWeightsGrad",
        "AscCut", "AscCycleEnd", "AscForward", "AscGate", "AscLocalKeys", "AscLocalRows", "AscLookup", "AscLookupGrad",
        "AscLookupWithInitialRows", "AscNameRows", "AscNextPlan", "AscNothing", "AscOpenServedTable",
        "AscOpenWatchedTable", "AscParseExample", "AscPlans", "AscProvisionalPlan", "AscRead", "AscReadDataset",
        "AscReadPosition", "AscReadRows", "AscReadsLive", "AscRestoreRows", "AscServedLookup", "AscServedLookupFound",
        "AscServedTable", "AscServedUpdates", "AscServedVersion", "AscServedWatch", "AscStartServedWatch", "AscSubmit",
        "AscSum", "AscTableInit", "AscTurn", "AscUpdate", "AscWatchedLookup", "AscWithInitialRows", "AscWithPosition",
        "AscWriteRows"]
