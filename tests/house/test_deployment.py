"""The image, its samples and the workflow name what is there, and keep to what docs/how-to/install.md says of them."""
import re
import shlex

import pytest
import yaml
from click.testing import CliRunner

from ascpipe.cli import main
from tests.support import tree

DOCKERFILE = (tree.ROOT / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((tree.ROOT / "packaging/docker/compose.yaml").read_text())
JOB = yaml.safe_load((tree.ROOT / "packaging/kubernetes/train.yaml").read_text())
WORKFLOW = (tree.ROOT / ".github/workflows/ci.yml").read_text()
POD = JOB["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]


def instructions():
    """(name, words) of each instruction of the Dockerfile."""
    lines = [line for line in DOCKERFILE.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return [(line.split()[0], line.split()[1:]) for line in lines]


def test_the_image_has_a_pinned_base_and_runs_as_a_user_who_owns_the_trusted_folders():
    bases = [words[0] for name, words in instructions() if name == "FROM"]
    assert bases == ["python:3.7-bookworm"] * 2
    last = [name for name, _ in instructions()][-1]
    users = [words for name, words in instructions() if name == "USER"]
    assert users == [["ascpipe"]] and last == "CMD"
    assert "install -d -m 0700 -o ascpipe -g ascpipe /run/ascpipe /home/ascpipe/.cache" in DOCKERFILE


def test_what_the_image_copies_is_in_the_tree_and_not_ignored():
    copied = [word for name, words in instructions() if name == "COPY" and not words[0].startswith("--from")
              for word in words[:-1]]
    assert copied == ["requirements.lock", "."]
    ignored = (tree.ROOT / ".dockerignore").read_text().split()
    needed = ["requirements.lock", "setup.py", "pyproject.toml", "README.md", "LICENSE", "NOTICE",
              "scripts/build_ops.py", "packaging/mx_rec/setup.py", "tfops/build.py"]
    assert all((tree.ROOT / name).exists() for name in needed)
    assert not [name for name in needed if name in ignored or name.split("/")[0] in ignored]


def test_the_image_installs_pins_with_their_hashes():
    installs = re.findall(r"pip install [^&\n]*", DOCKERFILE)
    assert len(installs) == 3
    assert all("--require-hashes" in line or "/wheels/" in line for line in installs)


def health_checks():
    yield re.search(r"HEALTHCHECK .* CMD (\[.*\])", DOCKERFILE).group(1)
    yield str(COMPOSE["services"]["train"]["healthcheck"]["test"][1:])
    yield str(CONTAINER["livenessProbe"]["exec"]["command"])
    yield str(CONTAINER["startupProbe"]["exec"]["command"])


def test_every_health_check_is_the_command_that_fails_where_no_daemon_answers():
    assert [yaml.safe_load(check) for check in health_checks()] == [["ascpipe", "status"]] * 4
    assert CliRunner().invoke(main.main, ["status"]).exit_code == 3


@pytest.mark.parametrize("command", [COMPOSE["services"]["train"]["command"], CONTAINER["command"]])
def test_a_sample_starts_the_daemon_that_its_program_takes(command):
    shell, option, script = command
    assert (shell, option) == ("sh", "-c")
    start, program = script.split(" && ")
    assert shlex.split(start) == ["ascpipe", "start"] and program == "exec python train.py"
    names = [COMPOSE["services"]["train"]["environment"]["ASCPIPE_NAME"],
             {one["name"]: one["value"] for one in CONTAINER["env"]}["ASCPIPE_NAME"]]
    assert names == ["default"] * 2


def test_the_compose_file_builds_the_image_of_the_tree():
    context = COMPOSE["services"]["train"]["build"]["context"]
    assert (tree.ROOT / "packaging/docker" / context / "Dockerfile").resolve() == tree.ROOT / "Dockerfile"
    assert set(COMPOSE["volumes"]) == {"kernels"}


def test_the_pod_has_shared_memory_and_no_variables_of_services_and_no_kernels_that_others_could_write():
    assert POD["enableServiceLinks"] is False
    volumes = {volume["name"]: volume for volume in POD["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for mount in CONTAINER["volumeMounts"]}
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
    assert set(mounts.values()) == set(volumes) and "/home/ascpipe/.cache" not in mounts
    assert POD["securityContext"]["fsGroup"] == POD["securityContext"]["runAsGroup"] == 1000
    assert POD["shareProcessNamespace"] is True
    probe = CONTAINER["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 600 and "initialDelaySeconds" not in CONTAINER[
        "livenessProbe"]
    assert POD["securityContext"]["runAsNonRoot"] is True and POD["securityContext"]["runAsUser"] == 1000
    assert "--uid 1000" in DOCKERFILE and not CONTAINER["image"].endswith(":latest")


def test_the_workflow_runs_what_ci_runs_and_keeps_the_wheels():
    (job,) = yaml.safe_load(WORKFLOW)["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands and "make wheels sdist" in commands
    assert (tree.ROOT / ".ci/run").stat().st_mode & 0o100
    assert job["container"] == "python:3.7-bookworm"
    assert all(re.fullmatch(r"[\w/-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


def test_verbs_of_make_that_documents_and_the_workflow_name_exist():
    makefile = (tree.ROOT / "Makefile").read_text()
    verbs = set(re.search(r"\.PHONY: (.*?)\n\.DEFAULT", makefile, re.S).group(1).replace("\\", " ").split())
    text = WORKFLOW + "".join(
        (tree.ROOT / path).read_text() for path in ("docs/how-to/install.md", "scripts/find_python.sh"))
    named = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^ *(?:- run: )?make ([a-z]+)", text, re.M))
    assert named and not named - verbs
