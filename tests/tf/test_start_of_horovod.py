"""What ``started`` refuses, with a stand-in for Horovod; tests/ranks runs the real one."""
import os
import subprocess
import sys
import types

import pytest
import tensorflow as tf

from ascpipe import ranks
from ascpipe.errors import HorovodMissingError, HorovodVersionError, RanksDisagreeError, RanksError
from ascpipe.tf.incumbent import collectives
from ascpipe.tf.running import horovod
from ascpipe.tf.running.process import Process, init, terminate_config_initializer


class Module(types.ModuleType):
    """As much of ``horovod.tensorflow`` as is asked for."""

    def __init__(self, rank=1, size=2, fails=False):
        super().__init__("horovod.tensorflow")
        self.__file__ = "/there/horovod/tensorflow/__init__.py"
        self.rank, self.size = lambda: rank, lambda: size
        self.fails, self.runs, self.begun = fails, False, 0

    def init(self):
        if self.fails:
            raise ValueError("Horovod initialization failed.")
        self.begun, self.runs = self.begun + 1, True

    def shutdown(self):
        self.runs = False

    def is_initialized(self):
        return self.runs


@pytest.fixture
def installed(monkeypatch):
    """Puts a stand-in where Horovod would be, of rank 1 of 2."""
    at_exit = []
    monkeypatch.setattr(horovod._Current, "started", None)
    monkeypatch.setattr(horovod._Current, "pid", None)
    monkeypatch.setattr(horovod, "atexit", types.SimpleNamespace(
        register=lambda *call: at_exit.append(call), unregister=lambda call: None))
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "2")

    def install(module, version=ranks.HOROVOD_VERSION):
        package, paths = types.ModuleType("horovod"), types.ModuleType("horovod.common.util")
        package.__version__ = version
        paths.get_extension_full_path = lambda file, name: os.path.join(os.path.dirname(file), name + ".so")
        for each in (package, types.ModuleType("horovod.common"), paths, module):
            monkeypatch.setitem(sys.modules, each.__name__, each)
        return at_exit

    return install


def test_it_is_begun_once_and_ended_at_exit_after_what_init_began(installed):
    module = Module()
    at_exit = installed(module)
    found = horovod.started()
    assert found == horovod.started() == (module, 1, 2, "/there/horovod/tensorflow/mpi_lib.so")
    assert (module.begun, os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"]) == (1, "10")
    assert [call[0].__name__ for call in at_exit] == ["_shut_down_in_time", "_end_process"]  # the last one runs first
    for function, *arguments in reversed(at_exit):
        function(*arguments)
    assert not module.runs


def test_what_the_program_or_the_user_has_set_stays(installed, monkeypatch):
    module = Module()
    installed(module)
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "60")
    module.init()
    horovod.started()
    assert (module.begun, os.environ["HOROVOD_GLOO_TIMEOUT_SECONDS"]) == (1, "60")


def test_a_missing_horovod_says_how_to_install_it(installed, monkeypatch):
    installed(Module())
    monkeypatch.setitem(sys.modules, "horovod", None)
    with pytest.raises(HorovodMissingError, match=r'`make ranks` .*, or pip install --no-build-.* "ascpipe\[ranks\]"'):
        horovod.started()


def test_another_version_is_refused(installed):
    installed(Module(), version="0.27.0")
    with pytest.raises(HorovodVersionError, match="0.27.0 is installed, but ascpipe supports only 0.28.1"):
        horovod.started()


@pytest.mark.parametrize("rank, size", [(0, 2), (1, 4)])
def test_a_rank_of_another_number_is_refused(installed, rank, size):
    installed(Module(rank, size))
    with pytest.raises(RanksDisagreeError, match="Horovod reports rank {} of {}, .* rank 1 of 2".format(rank, size)):
        horovod.started()


def test_a_start_that_fails_says_so(installed):
    installed(Module(fails=True))
    with pytest.raises(RanksError, match="did not start: Horovod initialization failed"):
        horovod.started()


def test_it_does_not_begin_twice_and_not_in_a_forked_child(installed, monkeypatch):
    module = Module()
    installed(module)
    horovod.started()
    monkeypatch.setattr(horovod._Current, "pid", 1)
    with pytest.raises(RanksError, match="forked child"):
        horovod.started()
    monkeypatch.setattr(horovod._Current, "pid", os.getpid())
    module.shutdown()
    with pytest.raises(RanksError, match="cannot start again"):
        horovod.started()
    assert module.begun == 1


@pytest.mark.parametrize("size, environment, warned", [
    (2, {}, False), (3, {}, True), (3, {"HOROVOD_FUSION_THRESHOLD": "0"}, False),
    (3, {"HOROVOD_FUSION_THRESHOLD": "0", "HOROVOD_AUTOTUNE": "1"}, True)])
def test_fused_sums_are_warned_of_from_three_ranks_on(installed, monkeypatch, caplog, size, environment, warned):
    for name in ("HOROVOD_FUSION_THRESHOLD", "HOROVOD_AUTOTUNE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOROVOD_SIZE": str(size), **environment}.items():
        monkeypatch.setenv(name, value)
    installed(Module(size=size))
    horovod.started()
    assert ("depend on timing" in caplog.text) == warned


def test_a_name_that_leads_to_this_machine_alone_is_refused_where_there_are_several(installed, monkeypatch):
    module = Module()
    installed(module)
    monkeypatch.setattr("socket.gethostbyname", lambda name: "127.0.1.1")
    monkeypatch.setenv("HOROVOD_CROSS_SIZE", "2")
    with pytest.raises(RanksError, match="resolves to 127.0.1.1"):
        horovod.started()
    monkeypatch.setenv("HOROVOD_CROSS_SIZE", "1")
    assert horovod.started().module is module


def test_an_unreachable_launcher_is_named(installed, monkeypatch):
    installed(Module())
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", "1")
    with pytest.raises(RanksError, match="E240: Rank 1 cannot reach the launcher at 127.0.0.1:1"):
        horovod.started()


def test_an_end_that_hangs_ends_the_process_flushed_and_leaves_its_cause(tmp_path):
    text = ("import sys, threading\nfrom ascpipe.tf.running import horovod\n"
            "sys.stdout = open(1, 'w', buffering=1000, closefd=False)\nprint('last words')\n"
            "horovod._shut_down_in_time(threading.Event().wait, 0.1)\n")
    environment = {**os.environ, "ASCPIPE_RANKS_FOLDER": str(tmp_path), "HOROVOD_RANK": "0", "HOROVOD_SIZE": "2"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, env=environment,
                          text=True)
    assert (done.returncode, done.stdout) == (70, "last words\n")
    assert "another rank does not answer" in done.stderr
    assert "another rank does not answer" in (tmp_path / "rank-0.causes").read_text()


def test_the_end_of_a_process_without_init_is_quiet(caplog):
    horovod._end_process()
    assert not caplog.text
    terminate_config_initializer()
    assert "nothing to shut down" in caplog.text


@pytest.mark.parametrize("environment", [
    {}, {"HOROVOD_RANK": "0", "HOROVOD_SIZE": "1", "OMPI_COMM_WORLD_SIZE": "4"},
    {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "1"}])
def test_one_rank_never_meets_horovod(environment, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    init()
    assert Process.current().configuration.rank_size == 1
    collectives.allreduce(tf.constant(1.0))
    terminate_config_initializer()
    assert not [name for name in sys.modules if name.split(".")[0] == "horovod"]
