"""Wheels of the tree: what is in them, that they work outside of the tree, and that nothing is left of them."""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
import tensorflow as tf
from packaging.requirements import Requirement

import ascpipe
from ascpipe.daemon import kernel_cache
from ascpipe.layout import kernel_library
from ascpipe.tfops import load
from tests.support import tree

LIBRARIES = {"ascpipe/tfops/" + name for name in ("libascpipe_ops.so", "libascpipe_files.so", "build_info.json")}
REAL = os.path.realpath(sys.executable)
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
SITE = "lib/python{}.{}/site-packages".format(*sys.version_info[:2])  #: in an environment
pytestmark = pytest.mark.timeout_s(180)
#: AVX and BMI instructions for v2, AVX-512 for v3
BEYOND = {"x86-64-v2": r"\t(?:v[a-z]\w+|shlx|shrx|sarx|rorx|andn|bls\w+|mulx|bzhi|pdep|pext)\s(?![a-z]*:)|%[yz]mm",
          "x86-64-v3": r"%zmm|%k[0-7]|%[xy]mm(?:1[6-9]|2\d|3[01])"}
#: modules of kernels whose tests, which compare them with their twins, are run with the libraries of the wheel
OF_KERNELS = ["unique", "victims"]
NOT_LINKED = re.compile(r"ascpipe|mx_rec|__editable__|__pycache__|.*\.pth$")


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900, **options)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done


def wheel_of(project, folder):
    run(*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, project)
    (made,) = folder.iterdir()
    return made


def files_of(wheel):
    with zipfile.ZipFile(str(wheel)) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.fixture(scope="module")
def wheels(copied, tmp_path_factory):
    """The wheels of ascpipe and of ascpipe-mx-rec."""
    return (wheel_of(copied, tmp_path_factory.mktemp("ascpipe")),
            wheel_of(copied / "packaging/mx_rec", tmp_path_factory.mktemp("mx_rec")))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A copy of this tree with its environment, its ops, and the libraries of kernels that there are.

    To compile all kernels for one more level takes half a minute of processor time. For a level that is not of this
    processor, and whose library neither the tree nor the user's cache has, the copy has one of a few kernels.
    """
    folder = tmp_path_factory.mktemp("copied")
    for name in listed_files("--cached", "--others", "--exclude-standard"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(tree.ROOT / name), str(folder / name))
    for name in ("libascpipe_ops.so", "libascpipe_files.so", "build_info.json"):
        shutil.copy2(str(tree.ROOT / "tfops" / name), str(folder / "tfops" / name))
    for name in (".venv", "tfops/build"):
        (folder / name).symlink_to(tree.ROOT / name)
    kernels = folder / "build/kernels"
    kernels.mkdir(parents=True)
    for level in kernel_library.LEVELS:
        name = kernel_library.file_name(level)
        found = [path for path in (Path(kernel_cache.prepare(""), name), tree.ROOT / "build/kernels" / name)
                 if path.exists()]
        if found or level != kernel_cache.level():
            shutil.copyfile(str(found[0] if found else part_of_library(level)), str(kernels / name))
    return folder


def listed_files(*options):
    """Files that git knows, and that are there."""
    listed = subprocess.check_output(["git", "ls-files", *options], cwd=str(tree.ROOT), text=True).splitlines()
    return [name for name in listed if (tree.ROOT / name).exists()]


#: links the kernels of ``OF_KERNELS``, and those that they call
PART = """
import pkgutil, sys, types
from ascpipe.kernels import linking
pkgutil.iter_modules = lambda path: [types.SimpleNamespace(name=name) for name in sys.argv[3:]]
linking.link(sys.argv[1], [sys.argv[2]], 1)
"""


def part_of_library(level):
    """A library of the kernels of ``OF_KERNELS`` for a level. It is kept in the tree."""
    kept = tree.ROOT / "build/part_of_kernels"
    kept.mkdir(parents=True, exist_ok=True)
    name = kernel_library.file_name(level)
    if not (kept / name).exists():
        run(sys.executable, "-W", "ignore", "-c", PART, kept, level, *OF_KERNELS, cwd=str(tree.ROOT),
            env=dict(os.environ, KERNEL_LIBRARY=""))
    return kept / name


def environment(folder):
    """An environment that sees the packages of .venv, and nothing of ascpipe."""
    run(REAL, "-m", "venv", "--without-pip", folder)
    packages = folder / "packages"
    packages.mkdir()
    site = Path(pytest.__file__).resolve().parent.parent
    for path in site.iterdir():
        if not NOT_LINKED.match(path.name):
            (packages / path.name).symlink_to(path)
    (folder / SITE / "packages.pth").write_text(str(packages) + "\n")
    return folder / "bin/python"


def pip(python, *arguments):
    return run(*PIP, "--python", python, *arguments, cwd="/")


def installed_files(python):
    """Of the environment, but what Python itself writes."""
    top = python.parent.parent
    return {path.relative_to(top).as_posix() for folder in ("bin", "lib") for path in (top / folder).rglob("*")
            if not {"__pycache__", "packages"} & set(path.parts)}


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheels):
    """The interpreter of an environment in which both are installed, with nothing but the wheels to take."""
    python = environment(tmp_path_factory.mktemp("environment") / "venv")
    before = installed_files(python)
    pip(python, "install", "--quiet", "--no-deps", *wheels)  # that .venv has what they ask for: tests/house
    yield python
    pip(python, "uninstall", "--yes", "--quiet", "ascpipe", "ascpipe-mx-rec")  # one may be gone by a test
    assert installed_files(python) == before


def test_the_wheel_has_the_ops_and_no_source_of_them_and_is_of_this_platform(wheels):
    assert wheels[0].name == "ascpipe-{0}-cp{1}-cp{1}{2}-linux_x86_64.whl".format(
        ascpipe.__version__, "{}{}".format(*sys.version_info[:2]), sys.abiflags)
    files = files_of(wheels[0])
    assert set(files) >= LIBRARIES
    assert not [name for name in files if name.endswith((".cc", ".h")) or name.split("/")[0] in ("tests", "mx_rec")]
    assert '"ascpipe": "{}"'.format(ascpipe.__version__).encode() in files["ascpipe/tfops/build_info.json"]
    about = "ascpipe-{}.dist-info/".format(ascpipe.__version__)
    asked = map(Requirement, Parser().parsestr(files[about + "METADATA"].decode()).get_all("Requires-Dist"))
    here = [str(one.specifier) for one in asked if one.name == "tensorflow" and one.marker.evaluate({"extra": ""})]
    assert here == ["==" + load.read_info()["tensorflow"]]
    assert {about + "LICENSE", about + "NOTICE"} <= set(files)
    assert b"Root-Is-Purelib: false" in files[about + "WHEEL"]


def test_mx_rec_asks_for_the_ascpipe_of_its_version_and_is_of_every_platform(wheels):
    assert wheels[1].name == "ascpipe_mx_rec-{}-py3-none-any.whl".format(ascpipe.__version__)
    about = "ascpipe_mx_rec-{}.dist-info/".format(ascpipe.__version__)
    files = files_of(wheels[1])
    asked = Parser().parsestr(files[about + "METADATA"].decode()).get_all("Requires-Dist")
    assert [text.replace(" ", "") for text in asked] == ["ascpipe=={}".format(ascpipe.__version__)]
    assert about + "LICENSE" in files


#: Appended to README's program, whose workers still run; prints the files that each worker has mapped.
MAPS = """
import json as _json, os as _os
_mapped = {}
for _pid in filter(str.isdigit, _os.listdir("/proc")):
    try:
        with open("/proc/" + _pid + "/cmdline") as _file:
            _title = _file.read().replace("\\0", " ").strip()
        if " worker 0 of private-{}-".format(_os.getpid()) not in _title:
            continue
        with open("/proc/" + _pid + "/maps") as _file:
            _mapped[_title.split(" of ")[0]] = sorted({_line.split()[-1] for _line in _file if "r-xp" in _line})
    except OSError:
        continue
print("MAPPED " + _json.dumps(_mapped))
"""


def test_the_readme_program_runs_without_compiler_cache_and_numba(installed, tmp_path):
    program, writer = re.findall(r"```python\n(.*?)```", (tree.ROOT / "README.md").read_text(), re.S)
    home, empty = tmp_path / "home", tmp_path / "no_programs"
    home.mkdir()
    empty.mkdir()
    run(installed, "-W", "ignore", "-c", writer, cwd=str(tmp_path))
    done = run(installed, "-W", "ignore", "-c", program + MAPS, cwd=str(tmp_path),
               env={"HOME": str(home), "PATH": str(empty), "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]})
    (loss, mapped) = done.stdout.splitlines()[-2:]
    assert re.match(r"loss 0\.\d+, 1000 rows$", loss)
    files = json.loads(mapped.partition(" ")[2])
    assert set(files) == {"ascpipe: key worker 0", "ascpipe: table worker 0"}
    for paths in files.values():
        assert not [path for path in paths if "llvmlite" in path]
        assert [path for path in paths if "/site-packages/ascpipe/kernels/library-" in path]
    assert not [path for path in home.rglob("*") if path.suffix in (".so", ".nbi", ".nbc")]
    assert "being compiled" not in done.stderr


def test_the_commands_of_the_wheel_work(installed, tmp_path):
    bin_folder = installed.parent
    built_for = "built for TensorFlow {},".format(tf.__version__)
    assert built_for in run(bin_folder / "ascpipe", "doctor", cwd=str(tmp_path)).stdout
    where = run(installed, "-W", "ignore", "-c", "import ascpipe; print(ascpipe.__file__)", cwd=str(tmp_path)).stdout
    assert where.startswith(str(bin_folder.parent))


def test_the_ops_are_not_built_where_their_sources_are_not_and_it_is_said_why(installed):
    done = subprocess.run([str(installed), "-m", "ascpipe.tfops.build"], stderr=subprocess.PIPE, cwd="/",
                          text=True)
    assert done.returncode == 1 and done.stderr.startswith("E226: ") and len(done.stderr.splitlines()) == 1


# ---- the compiled kernels

@pytest.fixture(scope="module", params=sorted(kernel_library.LEVELS))
def library(request, wheels, tmp_path_factory):
    """The library of a level that the wheel has, and its level."""
    name = kernel_library.file_name(request.param)
    path = tmp_path_factory.mktemp("library") / name
    path.write_bytes(files_of(wheels[0])["ascpipe/kernels/" + name])
    return request.param, path


def test_kernels_of_each_level_equal_their_twins(library):
    level, path = library
    if level not in kernel_cache.levels():
        pytest.skip("this processor has no " + level)
    tested = Path(os.environ["KERNEL_LIBRARY"])
    if tested.is_file() and path.read_bytes() == tested.read_bytes():
        return  # the file that tests/unit/kernels has
    require_equal_twins(path)


def require_equal_twins(path):
    tested = ["tests/unit/kernels/test_{}.py".format(name) for name in OF_KERNELS]
    done = run(sys.executable, "-m", "pytest", *tested, cwd=str(tree.ROOT),
               env=dict(os.environ, TEST_KERNEL_LIBRARY=str(path)))
    assert "compiled kernels: {}".format(path) in done.stdout and " passed" in done.stdout


def test_the_library_of_each_level_has_no_instructions_beyond_it(library):
    require_no_instructions_beyond(*library)


def require_no_instructions_beyond(level, path):
    if shutil.which("objdump") is None:
        pytest.skip("there is no objdump")
    code = run("objdump", "-d", "--no-show-raw-insn", path).stdout
    assert len(code) > 10 ** 6
    assert not re.findall(BEYOND[level], code)


@pytest.mark.long
def test_libraries_of_all_kernels_for_each_level_have_no_instructions_beyond_it_and_equal_their_twins(tmp_path):
    run(sys.executable, "-W", "ignore", "-m", "ascpipe.kernels.wheel_libraries", tmp_path, cwd=str(tree.ROOT),
        env=dict(os.environ, KERNEL_LIBRARY=""))
    for level in kernel_library.LEVELS:
        path = tmp_path / kernel_library.file_name(level)
        require_no_instructions_beyond(level, path)
        if level in kernel_cache.levels():
            require_equal_twins(path)


# ---- beside another product

ASK = ("import mx_rec\nprint(mx_rec.__file__)\n"
       "assert False, 'it was imported'")


@pytest.fixture
def another(installed):
    """Site-packages with another product's package ``mx_rec``, with files of names that ours has, too."""
    site = installed.parent.parent / SITE
    package, about = site / "mx_rec", site / "mx_rec-6.0.dist-info"
    for name in ("__init__.py", "core/__init__.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("BY = 'another'\n")
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mx_rec\nVersion: 6.0\n")
    (about / "RECORD").write_text("mx_rec/__init__.py,,\nmx_rec/core/__init__.py,,\nmx_rec-6.0.dist-info/METADATA,,\n")
    yield site
    shutil.rmtree(str(package))
    shutil.rmtree(str(about))


def test_another_product_of_that_name_is_neither_overwritten_nor_shadowed_without_a_word(installed, another, wheels):
    pip(installed, "install", "--quiet", "--no-deps", "--force-reinstall", wheels[1])
    assert (another / "mx_rec/__init__.py").read_text() == (another / "mx_rec/core/__init__.py").read_text() \
        == "BY = 'another'\n"
    refused = subprocess.run([str(installed), "-W", "ignore", "-c", "import mx_rec"], stderr=subprocess.PIPE, cwd="/",
                             text=True)
    assert ("E227: Two packages mx_rec are installed: ascpipe-mx-rec, and that of mx_rec 6.0 in "
            "{}/mx_rec".format(another)) in refused.stderr
    pip(installed, "uninstall", "--yes", "--quiet", "ascpipe-mx-rec")
    assert run(installed, "-c", "import mx_rec; print(mx_rec.BY)", cwd="/").stdout == "another\n"


# ---- from the source distribution

STAND_IN_COMPILER = """#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
    -o) : > "$2" ;;
    -MF) echo "made:" > "$2" ;;
  esac
  shift
done
"""


def test_the_source_distribution_has_the_tree_and_makes_a_wheel_of_the_same_files(copied, wheels, tmp_path):
    run(sys.executable, "-W", "ignore", "setup.py", "-q", "egg_info", "--egg-base", tmp_path, "sdist", "--dist-dir",
        tmp_path, cwd=str(tree.ROOT))
    (packed,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(str(packed)) as file:
        file.extractall(str(tmp_path))
    source = tmp_path / "ascpipe-{}".format(ascpipe.__version__)
    assert not [name for name in listed_files() if not (source / name).exists()]
    assert not list(source.rglob("*.so")) and not (source / "tfops/build").exists()
    compiler = tmp_path / "compiler"
    compiler.write_text(STAND_IN_COMPILER)
    compiler.chmod(0o755)
    os.environ["CXX"] = str(compiler)  # of the file list nothing depends on what is in the libraries
    (source / ".venv").symlink_to(tree.ROOT / ".venv")
    (source / "build").mkdir(exist_ok=True)
    shutil.copytree(str(copied / "build/kernels"), str(source / "build/kernels"))  # so none is compiled
    run(sys.executable, "-W", "ignore", "setup.py", "-q", "bdist_wheel", "--dist-dir", tmp_path / "made",
        cwd=str(source))
    (made,) = (tmp_path / "made").iterdir()
    # Set-up has installed the charts of the dashboard in this tree, and not in the copy.
    found = {name for name in files_of(made) if not name.startswith("ascpipe/dashboard/uplot/")}
    assert (made.name, found) == (wheels[0].name, set(files_of(wheels[0])))
