"""The packages have every folder and nothing else, the tree one version, and the lock files every pin."""
import importlib.util
import re
import subprocess
import sys

import pytest
import tomli
from packaging.requirements import Requirement

import ascpipe
from tests.support import tree

PROJECT = tomli.loads((tree.ROOT / "pyproject.toml").read_text())["project"]
MX_REC = tree.ROOT / "packaging/mx_rec"


def laid_out(folder, project):
    """The files of a package as ``setup.py`` lays them out, without what is compiled."""
    subprocess.run([sys.executable, "-W", "ignore", "setup.py", "-q", "build_py", "--build-lib", str(folder)],
                   cwd=str(project), check=True, stderr=subprocess.DEVNULL)
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("built"), tree.ROOT)


@pytest.fixture(scope="module")
def built_mx_rec(tmp_path_factory):
    return laid_out(tmp_path_factory.mktemp("built"), MX_REC)


def installed_path(path):
    """Where a file of the tree lies in a package."""
    parts = path.relative_to(tree.ROOT).parts
    return "/".join(("ascpipe", *parts) if parts[0] in ("workers", "tfops") else parts)


def test_every_source_is_in_the_package_and_no_other(built):
    sources = {installed_path(path) for path in tree.python_files("ascpipe", "workers", "tfops")}
    assert {name for name in built if name.endswith(".py")} == sources, "is an __init__.py missing?"


def test_settings_and_types_are_in_the_package_and_no_sources_of_the_ops(built):
    assert {name for name in built if not name.endswith(".py")} == {
        "ascpipe/defaults.toml", "ascpipe/kernels/library.c", "ascpipe/py.typed"}


def test_mx_rec_lies_in_a_folder_of_its_own_where_it_overwrites_no_other_product(built_mx_rec):
    sources = {"ascpipe_mx_rec/" + installed_path(path) for path in tree.python_files("mx_rec")}
    assert built_mx_rec == sources | {
        "ascpipe_mx_rec/mx_rec/py.typed", "ascpipe_mx_rec/README.txt", "ascpipe_mx_rec.pth"}


def test_the_changelog_begins_with_what_is_unreleased_and_then_this_version_with_its_day():
    heads = re.findall(r"^## (.+)$", (tree.ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == "Unreleased"
    assert re.match(r"\[{}\] \d{{4}}-\d\d-\d\d$".format(re.escape(ascpipe.__version__)), heads[1])
    assert all(re.match(r"\[\d+\.\d+\.\d+\] \d{4}-\d\d-\d\d$", head) for head in heads[1:])


def test_the_version_is_written_in_one_place_and_in_the_name_of_the_sample_image():
    assert (tree.ROOT / "packaging/kubernetes/train.yaml").read_text().count("ascpipe:" + ascpipe.__version__) == 1
    tools = [path for path in tree.text_files(".py", ".toml", ".yml", ".sh") if "docs" not in path.parts]
    assert [tree.name(path) for path in tools if '"{}"'.format(ascpipe.__version__) in path.read_text()] == [
        "ascpipe/__init__.py"]


LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-ranks.lock")


def locked(file):
    text = (tree.ROOT / file).read_text()
    return dict(re.findall(r"^([\w.-]+)==([\w.]+) \\$", text, re.M))


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(*extras):
    asked = [text for extra in extras for text in PROJECT["optional-dependencies"][extra]] if extras \
        else PROJECT["dependencies"]
    return [Requirement(text) for text in asked if not text.startswith("ascpipe")]


def missing(requirements, *files):
    pins = {name: version for file in files for name, version in locked(file).items()}
    return [str(one) for one in requirements if pins.get(normal(one.name), "0") not in one.specifier]


def test_the_pins_of_users_are_within_what_the_package_asks_for():
    builds = tomli.loads((tree.ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert not missing([*required(), *required("metrics"), *map(Requirement, builds)], LOCKS[0])
    assert not missing(required("dev", "plots"), *LOCKS[:2])
    assert not missing(required("ranks"), LOCKS[0], LOCKS[2])


def test_the_package_asks_for_ranges_so_that_it_stands_beside_pins_of_a_user():
    for one in required():
        assert [spec.operator for spec in one.specifier if spec.operator in ("<", "==")], "no end: {}".format(one)
        assert not [spec for spec in one.specifier if spec.operator == "==" and not spec.version.endswith(".*")], one


def test_the_package_asks_for_what_it_imports_and_nothing_else():
    ours = {"ascpipe", "mx_rec"} | {path.name for path in (tree.ROOT / "ascpipe/standins").iterdir()}
    imported = {name.split(".")[0] for path in tree.python_files(*tree.PRODUCT) for name in tree.imports(path)} - ours
    asked = {normal(one.name) for one in [*required(), *required("ranks"), *required("metrics")]}
    needed = {normal(name) for name in imported if not is_of_python(name)}
    assert asked - needed == {"protobuf"}  # TensorFlow would take one that it cannot be imported with
    assert needed - asked == {"llvmlite", "tensorflow-estimator"}  # of numba, TensorFlow


def is_of_python(module):
    if module in sys.builtin_module_names or module == "__future__":
        return True
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None and "site-packages" not in spec.origin


def test_users_get_no_linter_no_test_runner_and_no_plots():
    assert not {"pytest", "mypy", "ruff", "hypothesis", "matplotlib", "pyzmq"} & set(locked(LOCKS[0]))


def test_no_package_is_locked_to_two_versions():
    pins = {}
    for file in LOCKS:
        for name, version in locked(file).items():
            pins.setdefault(name, set()).add(version)
    assert not {name: versions for name, versions in pins.items() if len(versions) > 1}
    assert not set(locked(LOCKS[0])) & set(locked(LOCKS[1]))
    assert {"cloudpickle", "psutil", "pyyaml", "packaging"} <= set(locked(LOCKS[0])) | set(locked(LOCKS[2]))


@pytest.mark.parametrize("file", LOCKS)
def test_every_locked_file_has_a_hash_and_no_address(file):
    lines = [line for line in (tree.ROOT / file).read_text().splitlines() if not line.startswith("#")]
    assert all(re.match(r"[\w.-]+==[\w.]+ \\$|    --hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in lines)
    assert len([line for line in lines if "==" in line]) == len(locked(file))
