"""The pods of packaging/kubernetes for several ranks, imitated by namespaces: servers of ssh, and a launcher."""
import re
import shlex
import shutil
import signal
import subprocess

import pytest
import yaml

from tests.support import pods, tree
from tests.support.several_ranks import needs_horovod
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pods.needs_namespaces, pytest.mark.timeout_s(300), pytest.mark.skipif(
    shutil.which("sshd", path="/usr/sbin") is None, reason="no sshd (Debian: apt-get install openssh-server)")]

KUBERNETES = tree.ROOT / "packaging/kubernetes"
DOCKER = tree.ROOT / "packaging/docker"
TRAIN = """\
import os, runpy, socket, sys
print("rank", os.environ["RANK_ID"], "is in", socket.gethostname(), "as", os.getuid())
sys.argv = ["train.py", os.path.join(os.path.dirname(os.path.abspath(__file__)), "model"), "{steps}"]
runpy.run_path({program!r}, run_name="__main__")
"""
PROGRAM = str(tree.ROOT / "tests/support/programs/resumed_ranks.py")


def documents(*names):
    return {one["kind"]: one for name in names for one in yaml.safe_load_all((KUBERNETES / name).read_text())}


@pytest.fixture
def image():
    """The image of ranks."""
    dockerfile = (DOCKER / "ranks.Dockerfile").read_text()
    copied = re.findall(r"^COPY (packaging\S+) /etc/(\S+)$", dockerfile, re.MULTILINE)
    etc = {to: (tree.ROOT / source).read_text() for source, to in copied}
    command, = re.findall(r"^RUN (ssh-keygen .*)$", dockerfile, re.MULTILINE)
    return pods.Image(etc, [shlex.split(command)])


@pytest.fixture
def key(tmp_path):
    """The Secret of the job's key."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "id_rsa")], check=True)
    public = (tmp_path / "id_rsa.pub").read_text()
    return pods.Files({"id_rsa": (tmp_path / "id_rsa").read_text(), "id_rsa.pub": public, "authorized_keys": public})


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    (folder / "model").mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN.format(program=PROGRAM, steps=40))
    return folder


@pytest.fixture
def started():
    """A function that starts pods, which are ended after the test."""
    made, network = [], pods.Network()

    def start(named):
        """``named``: name of a pod -> (its other names, arguments of ``Pod``)."""
        for name, (_, arguments) in named.items():
            made.append(pods.Pod(name, *arguments[:-1], network=network, image=arguments[-1]))
        hosts = "".join("{} {} {}\n".format(network.addresses[name], name, others)
                        for name, (others, _) in named.items())
        for pod in made:
            pod.start(hosts)
        return made

    yield start
    for pod in made:
        pod.kill()
    network.close()


def trained(launcher):
    """(rank, ranks, first step, last step) of each rank, and the pod of each rank."""
    steps = re.findall("rank ([0-9]+) of ([0-9]+) steps ([0-9]+) to ([0-9]+) keys", launcher.said())
    places = re.findall("rank ([0-9]+) is in ([a-z0-9-]+) as 1000", launcher.said())
    return sorted(tuple(map(int, one)) for one in steps), [pod for _, pod in sorted(places)]


def require_training(workers, launcher):
    """Servers of ssh become ready, and the launcher trains one rank in each of them."""
    for worker in workers:
        worker.until(lambda worker=worker: worker.probe("readinessProbe"), 30)
    assert launcher.wait(100) == 0, launcher.said()
    assert trained(launcher) == ([(0, 2, 0, 40), (1, 2, 0, 40)], [worker.name for worker in workers])


@pytest.fixture
def job(started, tmp_path, work, key, image):
    """A function that starts the pods of the StatefulSet and of the Job, whose pod is the last one."""
    found = documents("ranks/workers.yaml", "ranks/launcher.yaml")
    stateful_set = found["StatefulSet"]
    hosts = pods.Files({"hosts.sh": (KUBERNETES / "ranks/hosts.sh").read_text()})
    volumes = {"work": work, "ssh": key, "hosts": hosts}

    def start(count):
        named = {}
        for number in range(count):
            name = "{}-{}".format(stateful_set["metadata"]["name"], number)
            named[name] = ("{}.{}".format(name, stateful_set["spec"]["serviceName"]), (
                stateful_set["spec"]["template"]["spec"], tmp_path / name, volumes, image))
        named["ascpipe-launcher-0"] = ("", (found["Job"]["spec"]["template"]["spec"], tmp_path / "launcher", volumes,
                                            image))
        return started(named)

    return start


def test_the_job_trains_on_the_pods_of_the_stateful_set(job):
    *workers, launcher = job(2)
    require_training(workers, launcher)


def test_the_ranks_end_with_a_launcher_that_is_stopped(job, work):
    (work / "train.py").write_text(TRAIN.format(program=PROGRAM, steps=10000))
    *workers, launcher = job(2)
    launcher.until(lambda: list((work / "model").glob("model.ckpt-10*")), 100)
    assert all(worker.run(["pgrep", "-f", "train.py"])[0] == 0 for worker in workers)
    code, seconds = launcher.terminate()  # it has PID 1, for which SIGTERM without a handler has no effect
    assert code == 128 + signal.SIGTERM and seconds < launcher.spec["terminationGracePeriodSeconds"], launcher.said()
    for worker in workers:
        wait_until(lambda worker=worker: worker.run(["pgrep", "-f", "train.py|ascpipe:"])[0] == 1, timeout_s=30)
        assert worker.probe("readinessProbe")  # for the next launcher


@pytest.mark.long
def test_training_continues_with_the_pods_that_are_left(job, work):
    (work / "train.py").write_text(TRAIN.format(program=PROGRAM, steps=60))
    *workers, launcher = job(3)
    launcher.until(lambda: list((work / "model").glob("model.ckpt-10*")), 100)
    workers[2].kill()
    assert launcher.wait(200) == 0, launcher.said()
    steps, _ = trained(launcher)
    assert "restart 1 of 100: all ranks restart, 2 instead of 3" in launcher.said()
    assert [one[:2] for one in steps] == [(0, 2), (1, 2)] and all(10 <= first < last == 60 for *_, first, last in steps)


def by_operator(spec, mounts):
    """A pod's spec with the volumes that the MPI Operator adds: the key of ssh and, for the launcher, the hosts."""
    container, = spec["containers"]
    more = [{"name": "ssh-auth", "secret": {"secretName": "ascpipe-train-ssh", "defaultMode": 0o644}},
            {"name": "mpi-job-config", "configMap": {"name": "ascpipe-train-config", "defaultMode": 0o555}}]
    more = [volume for volume in more if volume["name"] in mounts]
    container = {**container, "volumeMounts": [*container["volumeMounts"], *(
        {"name": volume["name"], "mountPath": mounts[volume["name"]]} for volume in more)]}
    return {**spec, "containers": [container], "volumes": [*spec["volumes"], *more]}


def test_the_mpi_job_trains_on_the_pods_that_the_operator_names(started, tmp_path, work, key, image):
    mpi_job = documents("mpijob.yaml")["MPIJob"]
    replicas, ssh = mpi_job["spec"]["mpiReplicaSpecs"], mpi_job["spec"]["sshAuthMountPath"]
    names = ["{}-worker-{}".format(mpi_job["metadata"]["name"], number) for number in range(2)]
    addresses = ["{}.{}.default.svc".format(name, mpi_job["metadata"]["name"]) for name in names]
    hosts = pods.Files({"discover_hosts.sh": "#!/bin/sh\n" + "".join("echo {}\n".format(one) for one in addresses)})
    volumes = {"work": work, "ssh-auth": key, "mpi-job-config": hosts}
    named = {name: (address, (by_operator(replicas["Worker"]["template"]["spec"], {"ssh-auth": ssh}), tmp_path / name,
                              volumes, image)) for name, address in zip(names, addresses)}
    launcher = by_operator(replicas["Launcher"]["template"]["spec"], {"ssh-auth": ssh, "mpi-job-config": "/etc/mpi"})
    named["ascpipe-train-launcher-0"] = ("", (launcher, tmp_path / "launcher", volumes, image))
    *workers, launcher = started(named)
    require_training(workers, launcher)
