"""Programs under ``ascpipe run``: what they find, and how they end; models as programs for Ascend servers have them."""
import json
import os
import signal
import subprocess
import sys

import pytest

from tests.support import forked_calls
from tests.support.ascend_programs import PROGRAMS, QUIET, run, served, start
from tests.support.daemons import ROOT, DaemonProcess, is_alive, use_standins
from tests.support.waiting import NeverHappenedError, wait_until

pytestmark = pytest.mark.usefixtures("fork_server")


@pytest.fixture
def forked(fork_server):
    """Programs of a test are forked from a process that has imported TensorFlow."""
    with forked_calls.used(fork_server):
        yield


def told(script, *arguments, **kwargs):
    """What a program that ends well prints as JSON."""
    code, out, err = run(script, *arguments, **kwargs)
    assert (code, err) == (0, ""), err
    return json.loads(out)


@pytest.fixture
def script(tmp_path):
    """Makes a program of some lines."""
    def make(text, name="program.py"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return make


SEEN = """\
import json, os, sys
import beside
main = sys.modules["__main__"]
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "file": __file__, "name": __name__, "main": main.__dict__ is globals(),
    "package": [__package__, __spec__], "beside": beside.HERE, "ranks": [os.environ[name] for name in (
        "RANK_ID", "RANK_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")],
    "loaded": sorted(name for name in sys.modules if name.split(".")[0] in ("ascpipe", "click"))}))
"""


def test_a_program_finds_what_python_gives_it(script, tmp_path):
    script("HERE = 1\n", "beside.py")
    (tmp_path / "folder").mkdir()
    os.symlink(str(script(SEEN)), str(tmp_path / "folder/link.py"))
    for name in ("program.py", "folder/link.py"):
        seen = told(name, "--name", "x y", "-h", cwd=tmp_path, PYTHONDONTWRITEBYTECODE="")
        assert seen["argv"] == [name, "--name", "x y", "-h"]
        assert (seen["path"], seen["file"], seen["name"], seen["main"]) == (str(tmp_path), name, "__main__", True)
        assert (seen["package"], seen["beside"], seen["loaded"]) == ([None, None], 1, [])
        assert seen["ranks"] == ["0", "1", "0", "1"]
    assert sorted(os.listdir(str(tmp_path))) == ["__pycache__", "beside.py", "folder", "program.py"]
    assert not [name for name in os.listdir(str(tmp_path / "__pycache__")) if name.startswith("program")]


@pytest.mark.parametrize("text, code, says", [
    ("import sys; sys.exit(7)", 7, ""), ("raise SystemExit('refused')", 1, "refused"), ("pass", 0, ""),
    ("1 / 0", 1, "ZeroDivisionError"), ("import sys; sys.stdout.write(", 1, "SyntaxError")])
def test_the_exit_code_is_the_program_s(script, text, code, says):
    got, out, err = run(script(text))
    assert (got, out) == (code, "")
    assert says in err and (says or not err)


@pytest.mark.timeout_s(240)
def test_a_program_that_tests_fork_finds_what_one_that_is_executed_does_and_ends_as_it_does(script, tmp_path):
    script("HERE = 1\n", "beside.py")
    ends = [script(text, "ends_{}.py".format(i)) for i, text in enumerate([
        "import sys; sys.exit(7)", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "1 / 0"])]

    def found():
        seen = told(script(SEEN), "--name", "x y", cwd=tmp_path)
        return {**seen, "loaded": None}, [run(path)[:2] for path in ends], run(ends[-1])[2].splitlines()[-1]

    executed = found()
    with served("forked", tmp_path):
        assert found() == executed
    assert [code for code, _ in executed[1]] == [7, -signal.SIGTERM, 1]


def test_a_program_that_is_left_running_is_killed_before_the_next_one_is_forked(forked, script, tmp_path):
    with pytest.raises(NeverHappenedError):
        forked_calls.python([script("import time; time.sleep(100)")], tmp_path, dict(os.environ), 0.5)
    assert forked_calls.python([script("print(5)")], tmp_path, dict(os.environ), 50.0) == (0, "5\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1])
def test_a_signal_reaches_the_program_itself(script, number):
    process = start(script("import signal\nprint('up', flush=True)\nsignal.pause()"))
    assert process.stdout.readline() == "up\n"
    process.send_signal(number)
    process.communicate()
    assert process.returncode == -number


def test_a_program_may_handle_its_signals(script):
    process = start(script("import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
                           "print('up', flush=True)\nwhile True:\n    signal.pause()"))
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 5


def test_a_rank_ends_with_the_shell_by_which_horovodrun_started_it(script, tmp_path):
    program = script("import signal\nprint('up', flush=True)\nsignal.pause()")
    started = [sys.executable, os.path.join(ROOT, "ascpipe/cli/program.py"), str(tmp_path), "", str(program)]
    environment = {**os.environ, "PYTHONPATH": ROOT, "ASCPIPE_RANKS_FOLDER": str(tmp_path),
                   "HOROVOD_CONTROLLER": "gloo", "HOROVOD_RANK": "0", "HOROVOD_SIZE": "1"}
    shell = subprocess.Popen(["/bin/sh", "-c", '"$@" & echo $!; wait', "sh", *started], env=environment,
                             stdout=subprocess.PIPE, universal_newlines=True)
    rank, up = (shell.stdout.readline().strip() for _ in range(2))
    assert up == "up"
    shell.kill()
    shell.wait()
    shell.stdout.close()
    wait_until(lambda: not is_alive(int(rank)), 10, "the rank has ended")


WHERE = "import json, npu_bridge, rec_sdk_common\nprint(json.dumps([npu_bridge.__file__, rec_sdk_common.__file__]))"


def test_a_package_that_is_installed_is_taken_before_its_stand_in(script, tmp_path):
    (tmp_path / "installed/npu_bridge").mkdir(parents=True)
    (tmp_path / "installed/npu_bridge/__init__.py").write_text("")
    standins = os.path.join(ROOT, "ascpipe/standins")
    path = os.pathsep.join([ROOT, str(tmp_path / "installed")])
    bridge, common = told(script(WHERE), PYTHONPATH=path)
    assert bridge == str(tmp_path / "installed/npu_bridge/__init__.py")
    assert common == os.path.join(standins, "rec_sdk_common/__init__.py")


def test_the_stand_ins_are_there_for_that_program_only(script):
    program = script("import json, subprocess, sys, npu_bridge\n"
                     "print(json.dumps(subprocess.call([sys.executable, '-c', 'import npu_bridge'], stderr=-3)))")
    assert told(program) == 1
    assert subprocess.call([sys.executable, "-c", "import npu_bridge"], stderr=subprocess.DEVNULL) == 1


def test_a_program_finds_every_name_it_imports(script):
    with open(os.path.join(PROGRAMS, "ascend_imports.py")) as file:  # apart from a program's own tf_adapter.py
        program = script(file.read())
    assert told(program, **QUIET) == {"rank": [0, 1, 0, 1], "same": True}


@pytest.mark.timeout_s(120)
def test_a_program_for_older_versions_finds_their_names_and_arguments(forked, tmp_path):
    code, out, err = run(os.path.join(PROGRAMS, "ascend_older.py"), cwd=tmp_path, MXREC_LOG_LEVEL="Debug", **QUIET)
    assert code == 0, err
    trained = json.loads(out)
    assert (len(trained["losses"]), trained["losses"][-1] < trained["losses"][0]) == (6, True)
    assert trained["size"] > 50
    said = [line.split(" mx_rec: ")[1] for line in err.splitlines() if " mx_rec: " in line]
    assert said == ["rank 0 of 1", *("step {}".format(step) for step in range(1, 7)), "Demo done!"]
    assert err.count("create_table() does not have these arguments, which are ignored: mode, optimizer_list") == 1


def demo(*arguments):
    """What the session demo prints: its last line as JSON."""
    code, out, err = run(os.path.join(PROGRAMS, "ascend_session.py"), *arguments, **QUIET)
    assert code == 0, err
    *said, last = out.splitlines()
    assert said == ["Demo done!"]
    return json.loads(last)


@pytest.mark.timeout_s(180)
@pytest.mark.smoke
def test_a_session_demo_trains_evaluates_and_saves(forked, tmp_path):
    folder = str(tmp_path / "saved")
    told = demo("--saved", folder)
    assert (told["steps"], len(told["losses"])) == (20, 20)
    assert told["sizes"] == [30, 30]
    assert [len(losses) for losses in told["evaluations"]] == [3, 3]
    assert {"sparse-model-0-0", "sparse-model-0-10", "sparse-model-0-20"} <= set(os.listdir(folder))
    in_loops = demo("--saved", str(tmp_path / "other"), "--iterations", "5")
    assert in_loops == {**told, "losses": told["losses"][4::5]}


@pytest.mark.timeout_s(180)
def test_a_loop_of_iterations_stops_at_the_end_of_data(forked, tmp_path):
    assert demo("--saved", str(tmp_path), "--iterations", "10", "--batches", "17")["steps"] == 17


@pytest.mark.timeout_s(300)
def test_an_estimator_trains_several_iterations_in_one_run_and_starts_warm(forked, tmp_path):
    def trained(*arguments):
        code, out, err = run(os.path.join(PROGRAMS, "ascend_estimator.py"), *arguments, **QUIET)
        assert code == 0, err
        return json.loads(out)

    one = trained("--model", str(tmp_path / "one"))
    assert (one["step"], len(one["losses"])) == (12, 12)
    four = trained("--model", str(tmp_path / "four"), "--iterations", "4")
    assert (four["step"], four["losses"]) == (12, one["losses"][3::4])
    warm = trained("--model", str(tmp_path / "warm"), "--warm-start", str(tmp_path / "four"), str(tmp_path / "one"))
    assert (warm["step"], warm["losses"][0] < one["losses"][0]) == (12, True)


def test_the_program_gets_the_daemon_that_was_named(script, monkeypatch):
    use_standins(monkeypatch)
    daemon = DaemonProcess("named")
    try:
        program = script("import json, os\nprint(json.dumps(os.environ['ASCPIPE_NAME']))")
        assert told(program, options=["--daemon", "named"]) == "named"
    finally:
        daemon.end()
