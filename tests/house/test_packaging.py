"""The package has every folder, the tree one version, the lock file every pin."""
import re
import subprocess
import sys

import pytest
import tomli

import ascpipe
from tests.support import tree

PROJECT = tomli.loads((tree.ROOT / "pyproject.toml").read_text())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The files of the package as ``setup.py`` lays them out."""
    folder = tmp_path_factory.mktemp("built")
    subprocess.run([sys.executable, "-W", "ignore", "setup.py", "-q", "build_py", "--build-lib", str(folder)],
                   cwd=str(tree.ROOT), check=True, stderr=subprocess.DEVNULL)
    return folder


def test_every_source_is_in_the_package(built):
    missing = []
    for path in tree.python_files(*tree.PRODUCT):
        place = tree.module_name(path).replace(".", "/")
        if not (built / (place + ".py")).exists() and not (built / place / "__init__.py").exists():
            missing.append(tree.name(path))
    assert not missing, "not in the package (is an __init__.py missing?): {}".format(missing)


def test_settings_and_op_sources_are_in_the_package(built):
    assert (built / "ascpipe/defaults.toml").exists()
    sources = {path.relative_to(tree.ROOT / "tfops") for path in (tree.ROOT / "tfops/src").rglob("*.*")}
    assert sources
    assert not [path for path in sources if not (built / "ascpipe/tfops" / path).exists()]


def test_the_changelog_begins_with_what_is_unreleased_or_this_version():
    heads = re.findall(r"^## (.+)$", (tree.ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == "Unreleased" or heads[0].startswith(ascpipe.__version__)


LOCKS = ("requirements.lock", "requirements-ranks.lock")


def locked(*files):
    text = "".join((tree.ROOT / file).read_text() for file in files or LOCKS[:1])
    return dict(re.findall(r"^([\w.-]+)==([\w.]+) \\$", text, re.M))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_is_locked_to_the_version_it_asks_for():
    pins = locked()
    extras = PROJECT["project"]["optional-dependencies"]
    needed = PROJECT["project"]["dependencies"] + extras["dev"] + extras["metrics"]
    needed += PROJECT["build-system"]["requires"]
    for requirement in needed:
        name, version = re.match(r"([\w.-]+?)(?:==([\w.]+)|>=.*)$", requirement).groups()
        assert normal(name) in pins, requirement
        assert version in (None, pins[normal(name)]), requirement


def test_every_requirement_of_several_ranks_is_locked_beside_the_others():
    (requirement,) = PROJECT["project"]["optional-dependencies"]["ranks"]
    assert requirement == "horovod=={}".format(locked(LOCKS[1])["horovod"])
    assert not set(locked(LOCKS[0])) & set(locked(LOCKS[1]))
    assert {"cloudpickle", "psutil", "pyyaml", "packaging"} <= set(locked(*LOCKS))


@pytest.mark.parametrize("file", LOCKS)
def test_every_locked_file_has_a_hash_and_no_address(file):
    lines = [line for line in (tree.ROOT / file).read_text().splitlines() if not line.startswith("#")]
    assert all(re.match(r"[\w.-]+==[\w.]+ \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in lines)
    assert len([line for line in lines if "==" in line]) == len(locked(file))
