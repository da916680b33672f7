"""The pod of packaging/kubernetes/train.yaml, imitated by namespaces: its command trains, and its probes succeed."""
import json
import re
import shutil
import signal

import pytest
import yaml

from tests.support import pods, tree
from tests.support.waiting import wait_until

pytestmark = [pods.needs_namespaces, pytest.mark.timeout_s(180)]

JOB, = yaml.safe_load_all((tree.ROOT / "packaging/kubernetes/train.yaml").read_text())
SPEC = JOB["spec"]["template"]["spec"]
PROGRAM = tree.ROOT / "tests/support/programs/pod_training.py"


@pytest.fixture
def work(tmp_path):
    """The claim with the program."""
    folder = tmp_path / "work"
    folder.mkdir()
    shutil.copy(str(PROGRAM), str(folder / "train.py"))
    return folder


@pytest.fixture
def started(tmp_path, work):
    """A function that starts the next pod of the job."""
    made = []

    def start():
        pod = pods.Pod("ascpipe-train-{}".format(len(made)), SPEC, tmp_path / "pod{}".format(len(made)), {"work": work})
        made.append(pod)
        pod.start()
        return pod

    yield start
    for pod in made:
        pod.kill()


def steps(pod):
    return [int(number) for number in re.findall(r"^step ([0-9]+)$", pod.said(), re.MULTILINE)]


def test_the_job_trains_its_probes_succeed_and_the_next_pod_continues(started, work):
    pod = started()
    pod.until(lambda: len(steps(pod)) > 45, 90)
    assert pod.probe("startupProbe") and pod.probe("livenessProbe")
    assert "daemon 'default': serving" in pod.run(["ascpipe", "status"])[1]
    assert pod.run(["sh", "-c", "id -u; id -G; pwd; hostname; grep CapBnd /proc/self/status"]) == (
        0, "1000\n1000\n/work\nascpipe-train-0\nCapBnd:\t0000000000000000\n")
    size, used = map(int, pod.run(["df", "--output=size,used", "/dev/shm"])[1].split()[-2:])
    assert (size, used > 0) == (8 << 20, True)  # KiB: tables and rings are in the volume of the manifest
    trained = steps(pod)[-1]
    code, seconds = pod.terminate()
    assert code == 128 + signal.SIGTERM and seconds < SPEC["terminationGracePeriodSeconds"]

    again = started()
    again.until(lambda: steps(again), 90)
    first = int(re.search("^from ([0-9]+)$", again.said(), re.MULTILINE).group(1))
    assert 40 <= first <= max(trained, steps(pod)[-1]) and first % 20 == 0
    (work / "stop").touch()
    assert again.wait(60) == 0, again.said()


def test_a_probe_fails_if_the_daemon_has_died(started):
    pod = started()
    pod.until(lambda: steps(pod), 90)
    assert pod.probe("livenessProbe")
    daemon = json.loads(pod.run(["ascpipe", "status", "--json"])[1])["pid"]
    assert pod.run(["kill", "-KILL", str(daemon)])[0] == 0
    wait_until(lambda: not pod.probe("livenessProbe"))
    assert pod.wait(60) == 1 and "E110" in pod.said(), pod.said()  # the Job starts another pod
