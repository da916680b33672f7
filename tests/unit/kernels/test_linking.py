"""The library of machine code: what it checks of arguments, and what a process needs that loads it."""
import os
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba import types

from ascpipe.kernels import linking
from ascpipe.kernels.linking import Argument, arguments_of
from ascpipe.layout import kernel_library

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT or numba.config.BOUNDSCHECK,
                                reason="a library has neither Python code nor checks of indexes")

#: a process that loads kernels from a library; prints what it loaded, results, and refusals
USER = '''
import sys
import numpy as np
from ascpipe.kernels import atomics, batch_steps, index, plan, ring_scan
from ascpipe.kernels.planner_memory import PLANNER
from ascpipe.kernels.records import LINE, Index
from ascpipe.layout.structs import TABLE
from ascpipe.tables.key_index import KeyIndex
from ascpipe.workers import key_worker, table_worker

print(sorted({"numba", "llvmlite"} & set(sys.modules)), type(index.find_keys).__name__)

words = np.zeros(4, np.uint32)
print(atomics.exchange_u32(words, 1, np.uint32(7)), atomics.load_acquire_u32(words[::-1], 2), words.tolist())

planners, header = np.zeros(1, PLANNER), np.zeros(1, TABLE)
planners[0]["home_rows"], planners[0]["header_at"] = 3, header.ctypes.data
rules = batch_steps.rules_of(planners[0], 5)
print(type(rules).__name__, rules.has_homes)
keys = KeyIndex((1, 3, 5), 40).index
found = np.zeros(2, np.int32)
index.find_keys(np.array([1, 2]), 2, keys, found)
print(found.tolist())

frozen = np.zeros(2, np.int32)
frozen.flags.writeable = False
for wrong in [
        (atomics.load_acquire_u32, words.view(np.int32), 1), (atomics.load_acquire_u32, words.astype(">u4"), 1),
        (atomics.load_acquire_u32, words.reshape(2, 2), 1), (atomics.load_acquire_u32, words, 1.5),
        (atomics.load_acquire_u32, [1], 0), (atomics.load_acquire_u32, words), (atomics.load_acquire_u32, words, 1, 2),
        (batch_steps.rules_of, header[0], 5), (batch_steps.rules_of, planners, 5),
        (index.find_keys, np.array([1, 2]), 2, keys[:1], found), (index.find_keys, np.array([1, 2]), 2, [*keys], found),
        (index.find_keys, np.array([1, 2]), 2, keys, frozen),
        (index.find_keys, np.array([1, 2, 3, 4])[::2], 2, keys, found),
        (index.find_keys, np.array([1, 2]), 2, Index(keys.extent, np.zeros(4, PLANNER)), found),
        (index.find_keys, np.array([1, 2]), 2, Index(np.zeros(1, LINE), keys.lines), found)]:
    try:
        wrong[0](*wrong[1:])
        print("taken:", wrong)
    except TypeError as error:
        assert "takes no arguments of these types" in str(error), error
print("refused")
'''


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The library of this session; one is linked where tests are run without."""
    if os.environ["KERNEL_LIBRARY"]:
        return os.environ["KERNEL_LIBRARY"]
    folder = tmp_path_factory.mktemp("linked")
    linked = link(folder)
    assert linked.returncode == 0, linked.stderr
    return str(folder / kernel_library.file_name("x86-64-v2"))


def link(folder, **environment):
    return subprocess.run([sys.executable, "-m", "ascpipe.kernels.linking", str(folder), "x86-64-v2"], text=True,
                          capture_output=True, env=dict(os.environ, KERNEL_LIBRARY="", **environment), timeout=300)


def run(code, library):
    return subprocess.run([sys.executable, "-c", code], env=dict(os.environ, KERNEL_LIBRARY=library), text=True,
                          capture_output=True)


@pytest.mark.timeout_s(120)
def test_a_process_with_a_library_needs_no_numba_and_takes_no_types_but_those_declared(library):
    done = run(USER, library)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[] builtin_function_or_method", "0 7 [0, 7, 0, 0]", "Rules 1", "[-1, -1]", "refused"]


@pytest.mark.timeout_s(120)
def test_a_damaged_library_is_told_from_other_errors_and_one_that_was_removed_is_done_without(library, tmp_path):
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"\x7fELF and then nothing")
    loading = "import sys; sys.argv[1:] = ['key']; from ascpipe.workers import loading; loading.main()"
    from ascpipe.control.exec_worker import BROKEN_KERNELS

    assert run(loading, str(damaged)).returncode == BROKEN_KERNELS
    assert run("import ascpipe.kernels.bits, sys; sys.exit('numba' not in sys.modules)",
               str(tmp_path / "none.so")).returncode == 0


def test_an_argument_is_described_as_numba_types_it():
    assert list(arguments_of(types.Array(types.uint32, 1, "C"))) == [Argument("ARRAY", 1, "'u'", 4, 1, 1, 1)]
    assert list(arguments_of(types.Array(types.int64, 2, "A", readonly=True, aligned=False))) == [
        Argument("ARRAY", 2, "'i'", 8, 0, 0, 0)]
    record = numba.from_dtype(np.dtype([("a", "<i8"), ("b", "<i4")]))
    assert list(arguments_of(record)) == [Argument("RECORD", item_bytes=12)]
    assert list(arguments_of(types.Tuple((types.int64, types.boolean)))) == [
        Argument("TUPLE", 2), Argument("NUMBER"), Argument("NUMBER")]


@pytest.mark.parametrize("kind", [types.float64, types.unicode_type, types.Tuple((types.int64, types.float32))])
def test_a_type_that_no_kernel_has_taken_yet_is_refused(kind):
    with pytest.raises(TypeError, match="a kernel of a library takes"):
        list(arguments_of(kind))


def test_a_missing_compiler_is_reported_before_anything_is_compiled(tmp_path):
    done = link(tmp_path, PATH="")
    assert done.returncode == 1
    assert done.stderr == "there is no C compiler (gcc, cc, clang)\n"
    assert os.listdir(str(tmp_path)) == []


def test_a_compiler_that_fails_is_named_in_the_last_line(monkeypatch):
    def fail(folder, levels, jobs):
        raise subprocess.CalledProcessError(3, ["/usr/bin/gcc", "-c"])

    monkeypatch.setattr(linking, "link", fail)
    with pytest.raises(SystemExit) as ended:
        linking.main(["folder", "x86-64-v2"])
    assert ended.value.code == "/usr/bin/gcc ended with 3"


#: translates two kernels that count references and puts them together; prints the names of the functions that count
TWO_KERNELS = """
import llvmlite.binding as llvm
from ascpipe.kernels import compiled, lowering
compiled.only_declare()
from ascpipe.kernels import free_slots, retire
kernels = list(compiled.KERNELS.values())
lowering.declare(kernels)
module = llvm.parse_assembly("")
for kernel in (free_slots.release_slots, retire.assign_keys):
    module.link_in(llvm.parse_bitcode(lowering.lower(kernel)))
print(sorted(function.name for function in module.functions if "cref" in function.name))
"""


@pytest.mark.timeout_s(120)
def test_functions_that_count_references_have_the_names_that_the_optimizer_knows():
    done = run(TWO_KERNELS, "")
    assert done.stdout == "['NRT_decref', 'NRT_incref']\n", done.stderr
