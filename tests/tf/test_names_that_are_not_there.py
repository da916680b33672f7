"""Imports of names that are not there: the error says what to use, and everything else is as Python has it."""
import importlib
import importlib.util
import inspect
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import mx_rec
from ascpipe import import_hints
from tests.support.importing import names_after, program_of
from tests.support.tree import ROOT

#: What a program imports, and words of the error.
MISSING = {
    "from mx_rec.util.initialize import nonsense": "docs/how-to/from-mx_rec.md",
    "from mx_rec.util.initialize import get_rankid": "did you mean get_rank_id?",
    "from mx_rec.util.initialize import init, save_host_data": "Saver saves and restores tables",
    "from mx_rec.optimizers.lazy_adam_by_addr import create_hash_optimizer_by_addr":
        "did you mean create_hash_optimizer_by_address?",
    "from mx_rec.core import do_merge_lookup": "import it from mx_rec.graph.merge_lookup",
    "from mx_rec.core.embedding import HBMSparseEmbedding": "BaseSparseEmbedding is their class",
    "from mx_rec import embedding": "did you mean mx_rec.core.embedding?",
    "import mx_rec.core.embeding": "did you mean mx_rec.core.embedding?",
    "import mx_rec.foo.bar": "docs/how-to/from-mx_rec.md",
    "from mx_rec.foo import bar": "docs/how-to/from-mx_rec.md",
    "import mx_rec.util.initialize.foo": "docs/how-to/from-mx_rec.md",
    "from mx_rec.optimizers.ftrl_t.deeper import x": "use mx_rec.optimizers.ftrl",
    "from mx_rec.optimizers.momentum import create_hash_optimizer": "use mx_rec.optimizers.lazy_adam",
}
#: The same below packages that `ascpipe run` has.
MISSING_IN_RUNS = {
    "from npu_bridge.npu_init import nonsense": "docs/how-to/from-mx_rec.md",
    "from npu_bridge.npu_init import NPUEstimater": "did you mean NPUEstimator?",
    "import npu_bridge.estimator.npu.keras_to_npu": "Keras is not supported",
    "from npu_bridge.estimator.npu import npu_confg": "did you mean npu_bridge.estimator.npu.npu_config?",
    "from npu_bridge.x import y": "docs/how-to/from-mx_rec.md",
    "from npu_device.compat.v1.npu_init import NPURunConfg": "did you mean NPURunConfig?",
    "import npu_device.distribute": "docs/how-to/from-mx_rec.md",
    "from tf_adapter import NPUEstimatr": "did you mean NPUEstimator?",
    "from rec_sdk_common.communication.hccl.hccl_info import get_rank": "did you mean get_rank_id?",
    "import rec_sdk_common.validator": "docs/how-to/from-mx_rec.md",
    "from mx_rec_common.log import loger": "did you mean logger?",
    "from mx_rec_common.ops import x": "docs/how-to/from-mx_rec.md",
}
PACKAGES = ("npu_bridge", "npu_device", "rec_sdk_common", "tf_adapter", "mx_rec_common")


@pytest.fixture
def error_of(tmp_path):
    """The text of the ImportError of a statement."""
    def of(statement):
        with pytest.raises(ImportError) as raised:
            names_after(statement, tmp_path)
        return str(raised.value)

    return of


@pytest.mark.parametrize("statement", MISSING)
def test_the_error_says_what_to_use_instead(statement, error_of):
    said = error_of(statement)
    assert MISSING[statement] in said
    assert "is not provided by ascpipe" in said


@pytest.mark.parametrize("package", PACKAGES)
def test_without_ascpipe_run_the_error_says_that_it_has_a_stand_in(package, error_of):
    for statement in ("import {}", "from {}.anything import x"):
        assert "`ascpipe run SCRIPT` has a stand-in" in error_of(statement.format(package))


def said_in_a_run(statements, folder, path=()):
    """Whether each was an ImportError, and its text, in a program under ``ascpipe run``."""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), *path]), PYTHONWARNINGS="ignore",
                       TF_CPP_MIN_LOG_LEVEL="3")
    command = [sys.executable, "-m", "ascpipe", "run", str(program_of(statements, folder))]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, timeout=50, check=True)
    return json.loads(done.stdout)


def test_programs_of_ascpipe_run_are_told_the_same_below_every_stand_in(tmp_path):
    for statement, (is_import_error, text) in said_in_a_run(MISSING_IN_RUNS, tmp_path).items():
        assert is_import_error is True, (statement, text)
        assert MISSING_IN_RUNS[statement] in text


def test_a_package_that_is_installed_says_what_it_says_itself(tmp_path):
    installed = tmp_path / "installed/npu_bridge"
    installed.mkdir(parents=True)
    (installed / "__init__.py").write_text("")
    (installed / "real.py").write_text("NAME = 1\n")
    statements = ["from npu_bridge.real import NAME", "import npu_bridge.foo", "from npu_bridge.real import foo",
                  "import mx_rec; import npu_bridge.foo", "from npu_bridge.real.foo import x"]
    said = said_in_a_run(statements, tmp_path, [str(tmp_path / "installed")])
    assert [is_import_error for is_import_error, _ in said.values()] == ["nothing", True, True, True, True]
    assert not [text for _, text in said.values() if "ascpipe" in text]


def test_what_only_asks_whether_there_is_such_a_name_is_answered_as_ever():
    initialize = importlib.import_module("mx_rec.util.initialize")
    for name in ("nonsense", "save_host_data", "__wrapped__", "_private", "__all___"):
        assert not hasattr(initialize, name)
        assert getattr(initialize, name, None) is None
    with pytest.raises(AttributeError, match="has no attribute '__wrapped__'"):
        initialize.__wrapped__  # noqa: B018
    for module in ("mx_rec.foo", "mx_rec.util.foo", "mx_rec.util.initialize.foo", "npu_bridge", "tf_adapter"):
        assert importlib.util.find_spec(module) is None
    assert importlib.util.find_spec("mx_rec.util.initialize").origin == initialize.__file__
    with pytest.raises(ModuleNotFoundError, match="No module named 'nothing_like_it'$"):
        importlib.import_module("nothing_like_it")


@pytest.mark.parametrize("module", ["mx_rec.util.variable", "mx_rec.core", "mx_rec"])
def test_a_call_of_import_gives_the_module_as_python_does_whatever_else_it_names(module, tmp_path):
    found = importlib.import_module(module)
    for name in ("x", "create_tabel"):
        assert __import__(module, fromlist=[name]) is found
        assert importlib.__import__(module, fromlist=[name]) is found
    with pytest.raises(ImportError, match="create_tabel is not provided by ascpipe"):
        names_after("from {} import create_tabel".format(module), tmp_path)
    with pytest.raises(ModuleNotFoundError, match="not provided by ascpipe") as raised:
        __import__(module + ".nothing", fromlist=["x"])
    assert raised.value.name == module + ".nothing"


def test_modules_may_be_inspected_imported_from_and_loaded_again(tmp_path):
    module = importlib.import_module("mx_rec.util.variable")
    assert "get_dense_and_sparse_variable" in inspect.getsource(module)
    assert "get_dense_and_sparse_variable" in dict(inspect.getmembers(module))
    assert importlib.reload(module) is module
    names = names_after("from mx_rec.core.asc import *\nfrom mx_rec.constants.constants import *", tmp_path)
    assert {"FeatureSpec", "start_asc_pipeline", "BaseEnum"} <= set(names)
    listed = [found.name for found in pkgutil.walk_packages(mx_rec.__path__, "mx_rec.")]
    assert "mx_rec.util.initialize" in listed and "mx_rec.core.asc.manager" in listed


def test_a_program_that_falls_back_upon_an_import_error_goes_on():
    try:
        from mx_rec.util.nothing import anything
    except ImportError:
        anything = None
    assert anything is None


def test_installing_twice_leaves_one_finder():
    before = list(sys.meta_path)
    import_hints.install("mx_rec", import_hints._FINDER.packages["mx_rec"])
    import_hints.point_to_run()
    assert sys.meta_path == before
