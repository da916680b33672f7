"""``started`` under horovodrun, with two ranks and with three."""
import json

import pytest

from tests.support.ranked_runs import ended
from tests.support.several_ranks import horovodrun, needs_horovod, said

pytestmark = [needs_horovod, pytest.mark.timeout_s(120)]

BEGIN = """\
import logging, os, sys, time
logging.basicConfig(format="%(message)s")
from ascpipe import ranks
from ascpipe.tf.running import horovod
"""
TELLS = BEGIN + """\
import json
if "first" in sys.argv:
    import horovod.tensorflow as hvd
    from ascpipe.tf.running import horovod
    hvd.init()
time.sleep(float(sys.argv[-1]) if ranks.get_rank_id() == 1 else 0)
found = horovod.started()
assert found is horovod.started()
loops = [os.sched_getscheduler(int(thread)) == os.SCHED_BATCH for thread in os.listdir("/proc/self/task")]
print(json.dumps([found.rank, found.size, os.path.basename(found.library), os.path.exists(found.library),
                  found.module.__name__, os.environ.get("HOROVOD_GLOO_TIMEOUT_SECONDS"),
                  sum(loops)]))
"""


@pytest.fixture
def script(tmp_path):
    """Makes a program of some lines."""
    def make(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return path

    return make


@pytest.mark.parametrize("how, gloo_timeout", [
    ("first", None), pytest.param("late", "10", marks=pytest.mark.long)])
def test_all_ranks_start_it_whether_the_program_has_or_not(script, how, gloo_timeout):
    code, out, err = ended(horovodrun(2, script(TELLS), how, "0"))
    assert code == 0, err
    for rank in (0, 1):
        (line,) = said(out, rank)
        (number, size, library, exists, module, timeout, loops) = json.loads(line)
        assert (number, size, exists, module, timeout) == (rank, 2, True, "horovod.tensorflow", gloo_timeout)
        assert library.startswith("mpi_lib") and loops >= 1
    assert "timing" not in err


def test_a_rank_may_come_later_than_gloo_would_wait(script):
    code, out, err = ended(horovodrun(2, script(TELLS), "late", "4"), HOROVOD_GLOO_TIMEOUT_SECONDS="2")
    assert code == 0, err
    assert [len(said(out, rank)) for rank in (0, 1)] == [1, 1]


def test_a_rank_that_never_comes_is_named(script):
    text = BEGIN + ("if ranks.get_rank_id() == 1:\n    time.sleep(100)\n"
                    "horovod.started(timeout_s=1.0)\n")
    code, _, err = ended(horovodrun(2, script(text)))
    assert code != 0
    assert "E240: Rank 0 waited 1 s for the start of rank 1 and gave up" in err


@pytest.mark.long
def test_three_ranks_are_warned_that_fused_sums_depend_on_timing(script):
    for threshold, warned in (("0", 0), ("67108864", 3)):
        code, _, err = ended(horovodrun(3, script(TELLS), "late", "0"), HOROVOD_FUSION_THRESHOLD=threshold)
        assert code == 0, err
        assert len([line for line in err.splitlines() if "depend on timing" in line]) == warned


def test_after_its_shut_down_the_error_says_to_start_anew(script):
    text = BEGIN + "horovod.started().module.shutdown()\nhorovod.started()\n"
    code, _, err = ended(horovodrun(2, script(text)))
    assert code != 0
    assert "E240: Horovod was shut down in this process and cannot start again" in err


def test_what_init_began_ends_before_horovod_does(script):
    text = BEGIN + """\
from ascpipe.tf.running.configuration import Configuration
from ascpipe.tf.running.process import Process
process = Process.begin(Configuration())
module = horovod.started().module
process.at_end(lambda: print("ends while Horovod runs:", module.is_initialized(), flush=True))
"""
    code, out, err = ended(horovodrun(2, script(text)))
    assert code == 0, err
    assert [said(out, rank) for rank in (0, 1)] == [["ends while Horovod runs: True"]] * 2
    assert "nothing to shut down" not in err


@pytest.mark.long
def test_an_exit_does_not_wait_for_a_rank_that_a_signal_has_stopped(script, tmp_path):
    text = BEGIN + """\
import signal
horovod.started()
if ranks.get_rank_id() == 1:
    with open(sys.argv[1] + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists(sys.argv[1]):
    pass
while open("/proc/{}/stat".format(open(sys.argv[1]).read())).read().split()[2] != "T":
    pass
sys.stdout = open(1, "w", buffering=1000, closefd=False)
sys.stdout.write("leaves\\n")
"""
    code, out, err = ended(horovodrun(2, script(text), str(tmp_path / "pid")))
    assert code != 0
    assert said(out, 0) == ["leaves"]  # flushed, though Python's own exit did not run to its end
    assert "another rank does not answer: exit code 70" in err
    assert "Process 0 exit with status code 70" in out
