"""``ascpipe run --ranks``: how ranks begin, fail, are ended and begin anew.  No process may be left: the leak gate
looks after each test."""
import os
import signal
import sys

import pytest

from tests.support.daemons import ROOT
from tests.support.several_ranks import ascpipe_run, ended, is_built_with_mpi, needs_horovod, said, started
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pytest.mark.timeout_s(120)]

LAST_WORDS = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
RANK = "import os, signal, sys, time\nrank = int(os.environ['RANK_ID'])\n"


@pytest.fixture
def script(tmp_path):
    """Makes a program of some lines."""
    def make(text):
        path = tmp_path / "program.py"
        path.write_text(RANK + text)
        return path

    return make


def ours(err):
    """What ``ascpipe run`` itself said."""
    return [line[len("ascpipe: "):] for line in err.splitlines() if line.startswith("ascpipe: ")]


def test_each_rank_is_told_its_number_and_gets_the_arguments(script):
    text = ("print(rank, [os.environ[name] for name in ('RANK_SIZE', 'OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', "
            "'OMPI_COMM_WORLD_LOCAL_SIZE', 'DEVICE_ID', 'JOB_ID')], sys.argv[1:], __name__)\n"
            "import npu_bridge\n"
            "print(os.environ.get('HOROVOD_FUSION_THRESHOLD'), [name for name in sys.modules if 'horovod' in name])\n")
    # What a run script has exported for one process does not stand in the way.
    code, out, err = ended(ascpipe_run(3, script(text), "x y", "--ranks", "-h"), RANK_SIZE="1",
                           OMPI_COMM_WORLD_SIZE="9")
    assert (code, ours(err)) == (0, []), err
    for rank in range(3):
        told = ["3", str(rank), "3", "3", str(rank), "10086"]
        assert said(out, rank) == [
            "{} {} ['x y', '--ranks', '-h'] __main__".format(rank, told), "0 []"]


@pytest.mark.parametrize("text, code, words, cause", [
    ("raise ValueError('the disk is full\\nand more')", 1, "exited with code 1",
     "ValueError: the disk is full"),
    ("sys.exit(7)", 7, "exited with code 7", "exit code 7"),
    pytest.param("sys.exit('refused')", 1, "exited with code 1", "refused", marks=pytest.mark.long),
    ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was killed by SIGKILL", None)])
def test_the_rank_that_fails_is_named_with_its_cause_and_its_exit_code(script, text, code, words, cause):
    text = "if rank == 1:\n    {}\nsignal.pause()\n".format(text)
    got, _, err = ended(ascpipe_run(2, script(text)))
    assert got == code, err
    first, *others = ours(err)
    assert first == "rank 1 {}. Messages of the ranks, first one first:".format(words)
    assert others == ["  none; see their output above" if cause is None else "  rank 1: " + cause]


def test_an_error_of_a_step_is_told_before_those_that_it_causes(script):
    text = ("import tensorflow as tf\nfrom ascpipe.tf.incumbent import collectives\n"
            "total = collectives.allreduce(tf.constant(1.0))\n"
            "session = tf.compat.v1.Session()\nsession.run(total)\n"
            "if rank == 1:\n    raise RuntimeError('ticket 7: no more rows')\n"
            "session.run(total)\n")
    code, _, err = ended(ascpipe_run(2, script(text)))
    assert code == 1
    assert ours(err)[1] == "  rank 1: RuntimeError: ticket 7: no more rows"


@pytest.mark.parametrize("number, last_words", [
    (signal.SIGINT, ""), (signal.SIGTERM, LAST_WORDS), *(pytest.param(*case, marks=pytest.mark.long) for case in [
        (signal.SIGTERM, ""), (signal.SIGHUP, ""), (signal.SIGINT, LAST_WORDS), (signal.SIGHUP, LAST_WORDS)])])
def test_a_signal_ends_all_ranks_and_is_no_reason_to_begin_anew(script, tmp_path, number, last_words):
    text = last_words + "open(sys.argv[1] + '/up-{}'.format(rank), 'w').close()\nwhile True:\n    signal.pause()\n"
    process = started(ascpipe_run(2, script(text), str(tmp_path), options=["--restarts", "3"]))
    wait_until(lambda: {"up-0", "up-1"} <= set(os.listdir(str(tmp_path))), 60, "both ranks run")
    process.send_signal(number)
    _, err = process.communicate()
    assert process.returncode == 128 + number
    assert ours(err) == []


@pytest.mark.parametrize("whom", ["launcher", "ascpipe"])
def test_ranks_end_when_the_launcher_or_ascpipe_is_killed(script, tmp_path, whom):
    text = "open(sys.argv[1] + '/up-{}'.format(rank), 'w').close()\nwhile True:\n    signal.pause()\n"
    process = started(ascpipe_run(2, script(text), str(tmp_path)), TMPDIR=str(tmp_path))  # a kill leaves its folder
    wait_until(lambda: {"up-0", "up-1"} <= set(os.listdir(str(tmp_path))), 60, "both ranks run")
    with open("/proc/{0}/task/{0}/children".format(process.pid)) as file:
        (launcher,) = map(int, file.read().split())
    os.kill(process.pid if whom == "ascpipe" else launcher, signal.SIGKILL)
    _, err = process.communicate()
    assert process.returncode == (-9 if whom == "ascpipe" else 137)
    if whom == "launcher":
        assert ours(err)[0].startswith("the launcher of the ranks was killed by SIGKILL. Messages of the ranks"), err


def test_ranks_begin_anew_as_often_as_asked_in_new_processes(script, tmp_path):
    text = ("path = '{}/{}'.format(sys.argv[1], os.environ['RANK_ID'])\n"
            "with open(path, 'a') as file:\n    file.write('{}\\n'.format(os.getpid()))\n"
            "turn = len(open(path).readlines())\n"
            "if rank == 1 and turn < int(sys.argv[2]):\n    sys.exit(turn)\n"
            "while not os.path.exists(sys.argv[1] + '/1'):\n    time.sleep(0.01)\n")
    for enough, restarts, code in ((3, 2, 0), (5, 1, 2)):
        folder = tmp_path / str(enough)
        folder.mkdir()
        options = ["--restarts", str(restarts)]
        got, _, err = ended(ascpipe_run(2, script(text), str(folder), str(enough), options=options))
        assert got == code, err
        begun = (folder / "1").read_text().split()
        assert len(set(begun)) == len(begun) == restarts + 1
        assert [line for line in ours(err) if line.startswith("restart")] == [
            "restart {} of {}: all ranks restart".format(number + 1, restarts) for number in range(restarts)]


TRAINING = os.path.join(ROOT, "tests/support/programs/resumed_ranks.py")


@pytest.mark.parametrize("line, restarts, restarted, stops", [
    ("    first = last = ", 5, 2, True),
    pytest.param("        time.sleep(STEP_S)", 3, 3, False, marks=pytest.mark.long)])
def test_three_failures_in_a_row_before_the_first_batch_end_the_run(tmp_path, line, restarts, restarted, stops):
    with open(TRAINING) as file:
        text = file.read()
    indent = " " * (len(line) - len(line.lstrip()))
    (tmp_path / "program.py").write_text(text.replace(line, indent + "sys.exit(2)\n" + line))
    code, _, err = ended(ascpipe_run(2, tmp_path / "program.py", str(tmp_path), "3",
                                     options=["--restarts", str(restarts)]))
    assert code == 2, err
    assert len([line for line in ours(err) if line.startswith("restart ")]) == restarted, err
    words = "the ranks failed 3 times in a row before their first batch"
    assert (words in err) == stops


@pytest.mark.skipif(is_built_with_mpi(), reason="Horovod is built with MPI here")
def test_ranks_by_mpi_are_refused_where_horovod_was_built_without(script):
    code, _, err = ended(ascpipe_run(2, script("print(rank)\n"), options=["--mpi"]))
    assert code == 1
    assert "MPI support has not been built" in err
    assert "Traceback" not in err


def test_horovodrun_itself_may_run_ascpipe_run(script):
    command = [sys.executable, "-m", "horovod.runner.launch", "--gloo", "--disable-cache", "-np", "2",
               sys.executable, "-m", "ascpipe", "run", str(script("print(rank, os.environ['RANK_SIZE'])\n"))]
    code, out, err = ended(command)
    assert code == 0, err
    assert [said(out, rank) for rank in (0, 1)] == [["0 2"], ["1 2"]]
