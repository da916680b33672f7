"""``ascpipe run --hosts`` between two machines: network namespaces with a cable, and an ``ssh`` that enters them."""
import contextlib
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.support import ranked_runs
from tests.support.daemons import ROOT
from tests.support.several_ranks import ascpipe_run, ended, needs_horovod, said, started
from tests.support.waiting import wait_until

MACHINES = {"ma": "10.77.77.1", "mb": "10.77.77.2"}
NAMED = {"ma": "127.0.0.1 localhost\n10.77.77.1 ma {name}\n10.77.77.2 mb\n",
         "mb": "127.0.0.1 localhost\n10.77.77.1 ma\n10.77.77.2 mb {name}\n"}

SSH = """\
#!/bin/bash
host=
while [ $# -gt 0 ]; do
  case $1 in
    -[opi]) shift 2 ;;
    -*) shift ;;
    *) [ -z "$host" ] || break; host=$1; shift ;;
  esac
done
if [ -z "$(ip -n {prefix}$host link show eth7 up)" ]; then
  echo "ssh: connect to host $host port 22: No route to host" >&2
  exit 255
fi
setsid ip netns exec {prefix}$host bash -c "$*" &
wait $!  # like a real server of ssh, the other machine does not end what it has begun when this client is killed
"""

PROGRAM = """\
import os
import tensorflow as tf
from ascpipe.tf.incumbent import collectives
total = collectives.allreduce(tf.constant(float(os.environ["RANK_ID"]) + 1))
print(os.environ["RANK_ID"], os.environ["HOROVOD_HOSTNAME"], tf.compat.v1.Session().run(total))
"""


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _possible():
    """Whether this user may make network namespaces here."""
    name = "asc-try-" + secrets.token_hex(3)
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    made = subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL).returncode == 0
    return made and subprocess.run(["ip", "netns", "del", name]).returncode == 0


pytestmark = [needs_horovod, pytest.mark.timeout_s(120),
              pytest.mark.skipif(not _possible(), reason="network namespaces cannot be made here")]


class Machines:
    """Two machines. The first one runs commands, and reaches the other one by ``ssh``."""

    def __init__(self, folder, spaces):
        self._folder, self._spaces = folder, spaces

    def __call__(self, count, script=None, *arguments, **names):
        hosts = "ma:{0},mb:{0}".format((count + 1) // 2)
        command = ascpipe_run(count, script or self._folder / "program.py", *arguments, options=["--hosts", hosts])
        return ended(self.on_the_first(command, **names), PATH=self.path())

    def path(self):
        """PATH, on which ``ssh`` enters the machine of its argument."""
        return "{}:{}".format(self._folder, os.environ["PATH"])

    def on_the_first(self, command, **names):
        """The command that runs a command there. ``names`` are the lines of /etc/hosts of a machine."""
        for name, space in self._spaces.items():
            os.makedirs(os.path.join("/etc/netns", space), exist_ok=True)
            with open(os.path.join("/etc/netns", space, "hosts"), "w") as file:
                file.write(names.get(name, NAMED[name]).format(name=socket.gethostname()))
        return ["ip", "netns", "exec", self._spaces["ma"], *command]

    def lose(self, name):
        """Take the cable of a machine away and kill all of its processes, as a loss of power does."""
        _ip("-n", self._spaces[name], "link", "set", "eth7", "down")
        found = self.processes(name)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def processes(self, name):
        """The PIDs of a machine."""
        found = subprocess.run(["ip", "netns", "pids", self._spaces[name]], check=True, stdout=subprocess.PIPE)
        return [int(pid) for pid in found.stdout.split()]


@pytest.fixture
def machines(tmp_path):
    prefix = "asc{}".format(secrets.token_hex(2))
    spaces = {name: prefix + name for name in MACHINES}
    folders = [os.path.join("/etc/netns", space) for space in spaces.values()]
    (tmp_path / "ssh").write_text(SSH.replace("{prefix}", prefix))
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "program.py").write_text(PROGRAM)
    try:
        for space in spaces.values():
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        _ip("-n", spaces["ma"], "link", "add", "eth7", "type", "veth", "peer", "name", "eth7", "netns", spaces["mb"])
        for name, space in spaces.items():
            _ip("-n", space, "addr", "add", MACHINES[name] + "/24", "dev", "eth7")
            _ip("-n", space, "link", "set", "eth7", "up")

        yield Machines(tmp_path, spaces)
    finally:
        for space, folder in zip(spaces.values(), folders):
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
def test_ranks_of_two_machines_are_joined(machines):
    code, out, err = machines(3)
    assert code == 0, err
    assert [said(out, rank)[-1] for rank in range(3)] == ["0 ma 6.0", "1 ma 6.0", "2 mb 6.0"]


def test_ranks_of_two_machines_train_what_one_trains(machines, tmp_path):
    case = {"tables": {"user": {"device": 160, "host": 600}, "item": {"dim": 4}}, "optimizer": "lazy_adam", "steps": 30,
            "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}, "evaluate_each": 10}
    one = ranked_runs.train(tmp_path / "one", 1, case).require_good_end()
    two = ranked_runs.train_by(lambda *program: machines(2, *program), tmp_path / "two", 2, case).require_good_end()
    np.testing.assert_allclose(two.losses, one.losses, rtol=1e-5)
    for name, rows in one.rows.items():
        np.testing.assert_allclose(two.rows[name], rows, rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_machine_whose_name_leads_to_itself_alone_says_so_before_horovod_begins(machines):
    wrong = "127.0.0.1 localhost\n10.77.77.1 ma\n10.77.77.2 mb\n127.0.1.1 {name}\n"
    code, _, err = machines(3, ma=wrong)
    assert code == 1
    assert "E240: the name of this machine, {}, resolves to 127.0.1.1".format(socket.gethostname()) in err
    code, _, err = machines(3, mb=wrong)
    assert code == 1
    assert "rank 2: RanksError: E240: the name of this machine, {}, resolves to 127.0.1.1".format(
        socket.gethostname()) in err


@pytest.mark.timeout_s(400)
def test_a_run_goes_on_with_fewer_ranks_when_a_machine_is_lost(machines, tmp_path):
    model, hosts = tmp_path / "model", tmp_path / "hosts.sh"
    model.mkdir()

    def offer(lines):
        hosts.write_text("#!/bin/sh\n" + "".join("echo {}\n".format(line) for line in lines))
        hosts.chmod(0o755)

    offer(["ma:2", "mb:1"])  # also after the loss of mb
    command = ascpipe_run("2:4", os.path.join(ROOT, "tests/support/programs/resumed_ranks.py"), str(model), "60",
                          options=["--hosts-script", str(hosts), "--restarts", "2"])
    process = started(machines.on_the_first(command), PATH=machines.path())
    try:
        wait_until(lambda: process.poll() is not None or list(model.glob("model.ckpt-10*")), timeout_s=200)
        assert machines.lose("mb") > 0
        out, err = process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0, err
    assert "ascpipe: restart 1 of 2: all ranks restart, 2 instead of 3\n" in err
    assert "ascpipe: no ranks start on hosts that do not answer: mb (" in err
    for rank in range(2):
        (line,) = said(out, rank)
        first = int(re.fullmatch(r"rank {} of 2 steps ([0-9]+) to 60 keys [0-9]+".format(rank), line).group(1))
        assert 10 <= first < 60 and first % 5 == 0


def test_a_given_machine_that_does_not_answer_is_named(machines, tmp_path):
    (tmp_path / "ssh").write_text("#!/bin/sh\necho 'ssh: connect to host mb: No route to host' >&2\nexit 255\n")
    code, _, err = machines(2)
    assert code == 1
    assert ("ascpipe: no rank was started: host mb cannot be reached by ssh (ssh exited with code 255: 'ssh: connect "
            "to host mb: No route to host')\n") in err


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.long)])
def test_ranks_of_other_machines_end_with_their_launcher(machines, tmp_path, number):
    program, up = tmp_path / "waiting.py", tmp_path / "up"
    program.write_text("import os, time\nopen({!r}, 'w').close()\nwhile True:\n    time.sleep(60)\n".format(str(up)))
    command = ascpipe_run(2, program, options=["--hosts", "mb:2"])
    process = started(machines.on_the_first(command), PATH=machines.path())
    try:
        wait_until(lambda: up.exists() or process.poll() is not None, timeout_s=90)
        assert machines.processes("mb"), process.communicate()
        process.send_signal(number)
        process.communicate()
        wait_until(lambda: not machines.processes("mb"), timeout_s=30)
    finally:
        process.kill()
        process.communicate()


SBATCH = os.path.join(ROOT, "packaging/slurm/train.sbatch")
#: what Slurm sets for a job of two nodes; the script runs on the first one
SLURM = {"SLURM_SUBMIT_DIR": ROOT, "SLURM_JOB_NODELIST": "m[a-b]", "SLURM_JOB_NUM_NODES": "2",
         "SLURM_NTASKS_PER_NODE": "1"}


@pytest.fixture
def slurm(machines, tmp_path):
    """A function that starts the script of Slurm with a program and its arguments."""
    scontrol = tmp_path / "scontrol"
    scontrol.write_text("#!/bin/sh\n[ \"$*\" = 'show hostnames m[a-b]' ] && printf 'ma\\nmb\\n'\n")
    scontrol.chmod(0o755)
    path = "{}:{}".format(os.path.dirname(sys.executable), machines.path())
    return lambda *program: started(machines.on_the_first(["bash", SBATCH, *map(str, program)]), PATH=path, **SLURM)


def test_the_script_of_slurm_trains_on_its_nodes(slurm, machines, tmp_path):
    process = slurm(tmp_path / "program.py")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    assert [said(out, rank)[-1] for rank in range(2)] == ["0 ma 3.0", "1 mb 3.0"]


def test_the_script_of_slurm_ends_its_ranks_when_the_time_of_the_job_is_over(slurm, machines, tmp_path):
    program, up = tmp_path / "waiting.py", tmp_path / "up"
    program.write_text("import os, time\nopen({!r} + os.environ['RANK_ID'], 'w').close()\nwhile True:\n"
                       "    time.sleep(60)\n".format(str(up)))
    process = slurm(program)
    try:
        wait_until(lambda: all(os.path.exists("{}{}".format(up, rank)) for rank in range(2)) or
                   process.poll() is not None, timeout_s=90)
        assert machines.processes("mb"), process.communicate()
        process.send_signal(signal.SIGTERM)  # --signal=B:TERM@120 sends it to the script alone
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        wait_until(lambda: not machines.processes("mb"), timeout_s=30)
    finally:
        process.kill()
        process.communicate()
