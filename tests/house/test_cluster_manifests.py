"""Manifests of several ranks and the scripts beside them: they fit the schemas, the image and each other."""
import os
import subprocess

import pytest
import yaml
from click.testing import CliRunner

from ascpipe.cli import main
from tests.support import tree

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="it is in requirements-dev.lock of CPython 3.7")
# Schemas of Kubernetes name no metaschema.
pytestmark = pytest.mark.filterwarnings("ignore:The metaschema specified by .schema was not found:DeprecationWarning")

KUBERNETES = tree.ROOT / "packaging/kubernetes"
RANKS = KUBERNETES / "ranks"
DOCKERFILE = (tree.ROOT / "packaging/docker/ranks.Dockerfile").read_text()
RELEASE = "1.28"

#: fields of kubeflow.org/v2beta1, from the types of the MPI Operator 0.8
MPI_JOB = {"slotsPerWorker", "runLauncherAsWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath",
           "launcherCreationPolicy", "mpiImplementation"}
RUN_POLICY = {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy",
              "suspend", "managedBy"}
REPLICAS = {"replicas", "template", "restartPolicy"}


def documents(path):
    return list(yaml.safe_load_all(path.read_text()))


FILES = [KUBERNETES / "train.yaml", *(RANKS / name for name in ("workers.yaml", "launcher.yaml", "network.yaml"))]
OBJECTS = [pytest.param(one, id="{}-{}".format(path.name, one["kind"])) for path in FILES for one in documents(path)]
BY_KIND = {one["kind"]: one for path in FILES[1:] for one in documents(path)}
KUSTOMIZATION, = documents(RANKS / "kustomization.yaml")
MPI, = documents(KUBERNETES / "mpijob.yaml")


@pytest.mark.parametrize("one", OBJECTS)
def test_a_manifest_fits_the_schema_of_kubernetes(one):
    kubernetes_validate.validate(one, RELEASE, strict=True)


def test_a_wrong_manifest_does_not_fit():
    wrong = {**BY_KIND["StatefulSet"], "spec": {**BY_KIND["StatefulSet"]["spec"], "replica": 4}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, RELEASE, strict=True)


def test_an_mpi_job_has_only_fields_of_the_operator_and_pods_that_fit_the_schema():
    spec = MPI["spec"]
    assert (MPI["apiVersion"], MPI["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    assert set(spec) <= MPI_JOB and set(spec["runPolicy"]) <= RUN_POLICY
    assert set(spec["mpiReplicaSpecs"]) == {"Launcher", "Worker"}
    for replicas in spec["mpiReplicaSpecs"].values():
        assert set(replicas) <= REPLICAS
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": replicas["template"]["spec"]}
        kubernetes_validate.validate(pod, RELEASE, strict=True)


def pod_of(kind):
    return BY_KIND[kind]["spec"]["template"]["spec"]


PODS = {"worker": pod_of("StatefulSet"), "launcher": pod_of("Job"),
        **{"mpi-" + name: replicas["template"]["spec"] for name, replicas in MPI["spec"]["mpiReplicaSpecs"].items()}}


@pytest.mark.parametrize("pod", PODS.values(), ids=list(PODS))
def test_a_pod_mounts_its_volumes_and_runs_as_the_user_of_the_image(pod):
    container, = pod["containers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == {volume["name"] for volume in pod["volumes"]}
    assert pod["enableServiceLinks"] is False and pod["securityContext"]["runAsUser"] == 1000
    assert pod["securityContext"]["fsGroup"] == 1000 and "/home/ascpipe/.cache" not in mounts.values()
    for volume in pod["volumes"]:
        if volume["name"] == "shm":
            assert volume["emptyDir"]["medium"] == "Memory" and mounts["shm"] == "/dev/shm"


@pytest.mark.parametrize("name", ["worker", "mpi-Worker"])
def test_a_worker_is_the_server_of_ssh_of_the_image(name):
    container, = PODS[name]["containers"]
    command = " ".join('"{}",'.format(word) for word in container["command"]).rstrip(",")
    assert "CMD [{}]".format(command) in DOCKERFILE
    config = (tree.ROOT / "packaging/docker/sshd_config").read_text()
    assert "Port 2222\n" in config and "COPY packaging/docker/sshd_config /etc/ascpipe/sshd_config" in DOCKERFILE
    assert container["readinessProbe"]["tcpSocket"]["port"] in ("ssh", 2222)
    assert "    Port 2222\n" in (tree.ROOT / "packaging/docker/ssh_config").read_text()


@pytest.mark.parametrize("name", ["launcher", "mpi-Launcher"])
def test_a_launcher_gives_run_options_that_it_takes(name, tmp_path):
    container, = PODS[name]["containers"]
    program, *arguments = container["command"]
    script, hosts = tmp_path / "train.py", tmp_path / "hosts.sh"
    script.write_text("")
    hosts.write_text("")
    assert program == "ascpipe" and arguments[-1].endswith("/train.py")
    given = [str(hosts) if word.endswith(".sh") else word for word in arguments[:-1]]
    told = CliRunner().invoke(main.main, [*given, "--mpi", "--help"])
    assert told.exit_code == 0
    wrong = CliRunner().invoke(main.main, [*given, "--hosts", "a:1", str(script)])
    assert wrong.exit_code == 2 and "--hosts and --hosts-script exclude each other" in wrong.output


def test_names_of_the_job_fit_each_other():
    workers, service = BY_KIND["StatefulSet"], BY_KIND["Service"]
    environment = {one["name"]: one["value"] for one in pod_of("Job")["containers"][0]["env"]}
    assert workers["spec"]["serviceName"] == service["metadata"]["name"]
    assert workers["spec"]["replicas"] <= int(environment["WORKERS"])
    assert service["spec"]["selector"] == workers["spec"]["selector"]["matchLabels"]
    labels = workers["spec"]["template"]["metadata"]["labels"]
    assert set(service["spec"]["selector"].items()) <= set(labels.items())
    (policy,) = BY_KIND["NetworkPolicy"]["spec"]["ingress"]
    assert policy["from"] == [{"podSelector": BY_KIND["NetworkPolicy"]["spec"]["podSelector"]}]
    volumes = {volume["name"]: volume for volume in pod_of("Job")["volumes"]}
    assert volumes["hosts"]["configMap"]["name"] == KUSTOMIZATION["configMapGenerator"][0]["name"]
    assert volumes["ssh"]["secret"]["secretName"] == KUSTOMIZATION["secretGenerator"][0]["name"]
    assert KUSTOMIZATION["resources"] == [path.name for path in FILES[1:]]


SSH = "#!/bin/sh\nfor word; do case $word in *{lost}*) exit 255;; esac; done\n"
MEETING = "#!/bin/sh\n: > {folder}/$$\nuntil [ $(ls {folder} | wc -l) -ge {count} ]; do sleep 0.1; done\n"


@pytest.fixture
def answering(tmp_path, monkeypatch):
    """Puts an ``ssh`` on PATH that reaches every host but one, and a ``scontrol`` of three nodes."""
    for name, text in (("ssh", SSH.format(lost="2")), ("scontrol", "#!/bin/sh\nprintf 'n1\\nn2\\nn3\\n'\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return {"PATH": "{}:{}".format(tmp_path, os.environ["PATH"])}


HOSTS = pytest.mark.parametrize("script, environment, hosts", [
    ("kubernetes/ranks/hosts.sh", {"WORKERS": "4", "RANKS_PER_WORKER": "3"},
     ["ascpipe-worker-{}.ascpipe-workers:3".format(number) for number in range(4)]),
    ("slurm/hosts.sh", {"SLURM_JOB_NODELIST": "n[1-3]", "RANKS_PER_NODE": "2"}, ["n1:2", "n2:2", "n3:2"])])


def printed(script, environment):
    done = subprocess.run([str(tree.ROOT / "packaging" / script)], env=environment, check=True,
                          stdout=subprocess.PIPE, text=True, timeout=30)
    return done.stdout.split()


@HOSTS
def test_a_script_of_hosts_prints_those_that_answer(answering, script, environment, hosts):
    expected = [host for host in hosts if not host.startswith(("n2", "ascpipe-worker-2"))]
    assert printed(script, {**answering, **environment}) == expected


@HOSTS
def test_a_script_of_hosts_asks_all_hosts_at_the_same_time(answering, tmp_path, script, environment, hosts):
    folder = tmp_path / "asked"
    folder.mkdir()
    (tmp_path / "ssh").write_text(MEETING.format(folder=folder, count=len(hosts)))
    assert printed(script, {**answering, **environment}) == hosts


def test_a_worker_prefers_a_machine_without_workers():
    labels = {"worker": BY_KIND["StatefulSet"]["spec"]["template"]["metadata"]["labels"],
              "mpi-Worker": MPI["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["metadata"]["labels"]}
    for name, own in labels.items():
        spread, = PODS[name]["topologySpreadConstraints"]
        assert spread["topologyKey"] == "kubernetes.io/hostname" and spread["labelSelector"]["matchLabels"] == own


def test_every_pod_has_the_default_profile_of_system_calls():
    train, = documents(KUBERNETES / "train.yaml")
    for pod in (*PODS.values(), train["spec"]["template"]["spec"]):
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def uncommented(path):
    """A file with its examples, which are list items in comments."""
    lines = path.read_text().splitlines()
    return "\n".join(line.replace("# ", "", 1) if line.lstrip().startswith(("# - ", "#   ")) else line
                     for line in lines if not line.startswith("#"))


@pytest.mark.parametrize("name", ["workers.yaml", "launcher.yaml", "network.yaml"])
def test_the_examples_in_comments_fit_the_schema_of_kubernetes(name):
    text = uncommented(RANKS / name)
    assert text != (RANKS / name).read_text().rstrip("\n")
    for one in yaml.safe_load_all(text):
        kubernetes_validate.validate(one, RELEASE, strict=True)


@pytest.mark.parametrize("name", [".gitignore", ".dockerignore"])
def test_the_private_key_of_the_job_is_ignored(name):
    assert "packaging/kubernetes/ranks/id_rsa*" in (tree.ROOT / name).read_text().splitlines()
