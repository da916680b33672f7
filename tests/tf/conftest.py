"""TensorFlow 1.15 is older than some warnings; it is imported here, once, without them."""
import os
import pathlib
import warnings

import pytest

from ascpipe.control import trainer_link
from tests.support.shared_daemon import SharedDaemon

#: Ops of a session share their work among as many threads as it asks for; else as many as the first session has.
os.environ["TF_OVERRIDE_GLOBAL_THREADPOOL"] = "1"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tensorflow as tf
    from tensorflow.python.autograph.core import ag_ctx
    from tensorflow.python.ops import weights_broadcast_ops
    from tensorflow.python.training import training_util
    from tensorflow.python.util import deprecation

    from tests.support.tensorflows import use_tensorflow_1

    tf.compat.v1.estimator.Estimator  # noqa: B018  loads the package, which tf does when it is first used

use_tensorflow_1()
tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

HERE = pathlib.Path(__file__).resolve().parent


def pytest_collection_modifyitems(items):
    for item in items:
        if HERE in pathlib.Path(str(item.fspath)).parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:Using or importing the ABCs:DeprecationWarning"))


@pytest.fixture(scope="session", autouse=True)
def _deprecations_are_not_looked_for():
    """Skip TensorFlow's search for deprecated arguments. It takes a tenth of the time, and its warnings are hidden."""
    with deprecation.silence():
        yield


@pytest.fixture(scope="session", autouse=True)
def _functions_of_datasets_are_called_as_they_are():
    """Skip AutoGraph, which takes a twentieth of the time. No function of these tests has a condition on a tensor, and
    ascpipe's own functions ask for none. Programs of ``tests/integration`` have it.
    """
    with ag_ctx.ControlStatusCtx(ag_ctx.Status.DISABLED):
        yield


@pytest.fixture(scope="session", autouse=True)
def _graphs_are_not_written_as_text():
    """Skip graph.pbtxt, which hooks write for people. Printing it took 10 % of the time of tests with Estimators."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_util, "write_graph", lambda *args, **kwargs: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _shapes_of_weights_are_not_checked():
    """Skip the conditionals by which metrics and losses check the shapes of weights: 30 ops for each. Evaluations of
    canned Estimators took a fifth of their time to build them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights_broadcast_ops, "assert_broadcastable", lambda weights, values: tf.no_op())
        yield


@pytest.fixture(scope="session")
def _shared_daemon():
    daemon = SharedDaemon()
    yield daemon
    daemon.end()


@pytest.fixture
def private_daemon():
    """The trainer of this test has a daemon of its own, as those of users have."""


@pytest.fixture(autouse=True)
def _daemon(request, monkeypatch, _shared_daemon):
    if "private_daemon" in request.fixturenames:
        yield
        return
    monkeypatch.setattr(trainer_link, "connect", _shared_daemon.connect)
    monkeypatch.setattr(trainer_link, "begin", lambda daemon: None)
    yield
    _shared_daemon.require_back()
