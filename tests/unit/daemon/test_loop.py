"""Actions of a daemon's loop: each kind has its own method, and none is dropped."""
import gc
import weakref

import pytest

from ascpipe.config import load_settings
from ascpipe.control import messages
from ascpipe.daemon import events
from ascpipe.daemon.exporter import Exporter
from ascpipe.daemon.loop import Daemon
from ascpipe.daemon.run_directory import OwnedRunDir
from ascpipe.daemon.supervisor import Supervisor
from ascpipe.daemon.template import READY
from ascpipe.daemon.watching import Watch


@pytest.fixture
def daemon(tmp_path):
    owned = OwnedRunDir("unit")
    settings, supervisor = load_settings({}, {}), Supervisor(owned.run, {}, template=None)
    made = Daemon(owned, settings, private_to=0, cache_dir=str(tmp_path), supervisor=supervisor,
                  watch=Watch(supervisor, owned, settings, Exporter(owned.run, settings)))
    yield made
    made.close()
    owned.leave(keep_log=False)


def test_each_kind_of_action_is_carried_out_by_a_method_of_its_own(daemon):
    assert set(daemon._actions) == set(events.Action.__args__)


def test_an_action_of_another_kind_is_an_error(daemon):
    with pytest.raises(KeyError):
        daemon._do(events.Tick())


@pytest.mark.parametrize("action", [
    events.SendStream(0), events.SendTable(0), events.ClearClaim(1),
    events.FailSession(None)], ids=lambda action: type(action).__name__)
def test_an_action_that_belongs_to_a_session_is_an_error_without_one(daemon, action):
    with pytest.raises(RuntimeError, match="there is no session in state 'idle'"):
        daemon._do(action)


def test_a_daemon_compiles_kernels_until_a_process_has_loaded_them(daemon, monkeypatch):
    assert daemon._status(messages.Status())["compiling"]  # its folder of kernels is empty
    daemon._watch_workers()
    assert daemon._status(messages.Status())["compiling"]
    monkeypatch.setattr(daemon._supervisor, "template_state", lambda: READY)
    daemon._watch_workers()
    monkeypatch.undo()
    daemon._watch_workers()  # a template that ends later changes nothing
    assert not daemon._status(messages.Status())["compiling"]


class Cycle:
    def __init__(self):
        self.own = self


def test_a_daemon_that_goes_on_after_a_session_keeps_nothing_of_it(daemon):
    gc.collect()
    garbage = weakref.ref(Cycle())
    assert garbage() is not None
    daemon._session.leave("said bye")
    assert garbage() is None


def test_a_daemon_without_a_session_closes_none(daemon):
    daemon._do(events.CloseSession())
    assert daemon._memory is None
