"""The packages have every folder and nothing else, the tree one version, and the lock files every pin."""
import importlib.util
import re
import subprocess
import sys

import pytest
import tomli
from packaging.markers import Marker
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
        "ascpipe/defaults.toml", "ascpipe/kernels/library.c", "ascpipe/py.typed",
        *("ascpipe/dashboard/" + name for name in (
            "charts.js", "checkpoints.js", "page.css", "page.html", "page.js", "page.svg", "panels.js", "ranks.js")),
        *("ascpipe/dashboard/uplot/" + path.name for path in (tree.ROOT / "ascpipe/dashboard/uplot").glob("*"))}


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


#: Version of Python -> lock files: of users, of linters and tests, of ranks.
LOCKS = {"3.7": ("requirements.lock", "requirements-dev.lock", "requirements-ranks.lock"),
         "3.10": ("requirements-tf2.lock", "requirements-dev-tf2.lock"),
         "3.11": ("requirements-tf2.lock", "requirements-dev-tf2.lock")}
EACH = pytest.mark.parametrize("python", list(LOCKS))
PIN = re.compile(r"^([\w.-]+)==([\w.]+)(?: ; (python_version [<>]=? \"3\.\d+\"))? \\$", re.M)


def locked(file, python="3.7"):
    """Version of each package that a lock file has for a version of Python."""
    found = [(name, version) for name, version, marker in PIN.findall((tree.ROOT / file).read_text())
             if not marker or Marker(marker).evaluate({"python_version": python})]
    assert len(dict(found)) == len(found)
    return dict(found)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def required(*extras, python="3.7"):
    asked = [text for extra in extras for text in PROJECT["optional-dependencies"][extra]] if extras \
        else PROJECT["dependencies"]
    found = [Requirement(text) for text in asked if not text.startswith("ascpipe")]
    return [one for one in found if one.marker is None or one.marker.evaluate({"python_version": python})]


def missing(requirements, python, *files):
    pins = {name: version for file in files for name, version in locked(file, python).items()}
    pins.setdefault("tensorflow", pins.get("tensorflow-cpu", "0"))
    return [str(one) for one in requirements if pins.get(normal(one.name), "0") not in one.specifier]


@EACH
def test_the_pins_of_users_are_within_what_the_package_asks_for(python):
    locks = LOCKS[python]
    builds = tomli.loads((tree.ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert not missing([*required(python=python), *required("metrics", python=python), *map(Requirement, builds)],
                       python, locks[0])
    assert not missing(required("dev", "plots", python=python), python, *locks[:2])
    if len(locks) > 2:
        assert not missing(required("ranks", python=python), python, locks[0], locks[2])


def test_the_package_asks_for_ranges_so_that_it_stands_beside_pins_of_a_user():
    for one in [one for python in LOCKS for one in required(python=python)]:
        assert [spec.operator for spec in one.specifier if spec.operator in ("<", "==")], "no end: {}".format(one)
        assert not [spec for spec in one.specifier if spec.operator == "==" and not spec.version.endswith(".*")], one


def test_the_package_asks_for_what_it_imports_and_nothing_else():
    ours = {"ascpipe", "mx_rec"} | {path.name for path in (tree.ROOT / "ascpipe/standins").iterdir()}
    imported = {name.split(".")[0] for path in tree.python_files(*tree.PRODUCT) for name in tree.imports(path)} - ours
    asked = {normal(one.name) for one in [*required(), *required("ranks"), *required("metrics"), *required("parquet")]}
    needed = {normal(name) for name in imported if not is_of_python(name)}
    assert asked - needed == {"protobuf"}  # TensorFlow would take one that it cannot be imported with
    assert needed - asked == {"llvmlite", "tensorflow-estimator"}  # of numba, TensorFlow


def is_of_python(module):
    if module in sys.builtin_module_names or module == "__future__":
        return True
    spec = importlib.util.find_spec(module)
    return spec is not None and spec.origin is not None and "site-packages" not in spec.origin


@EACH
def test_users_get_no_linter_no_test_runner_and_no_plots(python):
    assert not {"pytest", "mypy", "ruff", "hypothesis", "matplotlib", "pyzmq"} & set(locked(LOCKS[python][0], python))


@EACH
def test_no_package_is_locked_to_two_versions(python):
    pins = {}
    for file in LOCKS[python]:
        for name, version in locked(file, python).items():
            pins.setdefault(name, set()).add(version)
    assert not {name: versions for name, versions in pins.items() if len(versions) > 1}
    assert not set(locked(LOCKS[python][0], python)) & set(locked(LOCKS[python][1], python))


def test_the_locks_have_what_horovod_needs():
    users, _, ranks = LOCKS["3.7"]
    assert {"cloudpickle", "psutil", "pyyaml", "packaging"} <= set(locked(users)) | set(locked(ranks))


@pytest.mark.parametrize("file", sorted({file for files in LOCKS.values() for file in files}))
def test_every_locked_file_has_a_hash_and_no_address(file):
    lines = [line for line in (tree.ROOT / file).read_text().splitlines() if not line.startswith("#")]
    assert all(PIN.match(line) or re.match(r"    --hash=sha256:[0-9a-f]{64}( \\)?$", line) for line in lines)
    assert [line for line in lines if "==" in line] == [line for line in lines if PIN.match(line)]
