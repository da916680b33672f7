"""Compiles and runs the C++ tests of the core: with the objects of the op library, and with sanitizers."""
import hashlib
import os
import random
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascpipe.shm import memory
from ascpipe.tfops import build, units
from tests.reference import initial_rows
from tests.support.covering import example_count

HERE = Path(__file__).resolve().parent
FOLDERS = [build.SOURCES / name for name in build.WITHOUT_TENSORFLOW]
FOLDER = build.OBJECTS / "tests"

TESTS = sorted(path.stem for path in HERE.glob("test_*.cc"))
WITH_THREADS = ("test_bags", "test_bell", "test_blocks", "test_exchange_spans", "test_kept_files", "test_peer_asks",
                "test_peer_failures", "test_peer_waits", "test_peers", "test_reading_figures", "test_ring_growth",
                "test_row_engine", "test_row_faults", "test_served_updates", "test_stream", "test_table_file",
                "test_waiter")
FLAGS = ["-std=c++14", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(build.SOURCES),
         "-I", str(build.GENERATED), "-I", str(HERE)]
SHIPPED = ["-O0", "-DNDEBUG"]  # for the tests; the objects of the core are those of the library
SANITIZERS = {
    "address": ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-O1", "-g", "-fsanitize=thread", "-Wno-tsan"],
}


def run(command):
    done = subprocess.run([str(word) for word in command], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return done.stdout


def compiled(source, flags):
    """Return the object of a source. Recompile it only if a source, header or flag has changed."""
    digest = hashlib.sha256(" ".join(flags).encode())
    headers = [sorted(folder.glob("*.h")) for folder in (HERE, *FOLDERS)]
    for path in [source, *sum(headers, []), *sorted(build.GENERATED.glob("*/*.h"))]:
        digest.update(path.name.encode() + path.read_bytes())
    target = FOLDER / "{}-{}.o".format(source.stem, digest.hexdigest()[:16])
    if not target.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".{}".format(os.getpid()))
        run(["g++", *FLAGS, *flags, "-x", "c++", "-c", source, "-o", fresh])
        fresh.replace(target)
    return target


def together(sources):
    """Return one source with the texts of all sources, each in a separate namespace.

    The sources use the same templates, so compiling them one by one takes four times as long.
    """
    includes, texts = set(), []
    for source in sources:
        lines = source.read_text().split("\n")
        includes.update(line for line in lines if line.startswith("#include"))
        rest = "\n".join("" if line.startswith("#include") else line for line in lines)
        texts.append("namespace of_{} {{\n#line 1 \"{}\"\n{}}}\n".format(source.stem, source, rest))
    FOLDER.mkdir(parents=True, exist_ok=True)
    fresh = FOLDER / "tests.{}".format(os.getpid())
    fresh.write_text("\n".join([*sorted(includes), *texts]))
    fresh.replace(FOLDER / "tests.cc")
    return FOLDER / "tests.cc"


def linked(name, sources, flags, objects):
    """Link a program from the given sources and objects, and return its path."""
    with ThreadPoolExecutor(build.JOBS) as pool:
        parts = [*pool.map(lambda source: compiled(source, flags), sources), *objects]
    program = FOLDER / "{}-{}".format(name, os.getpid())
    run(["g++", *FLAGS, *flags, *parts, "-ldl", "-o", program])
    return program


def objects():
    """Return the objects of the libraries that do not need TensorFlow."""
    return [path for part in build.WITHOUT_TENSORFLOW for path in sorted(build.OBJECTS.glob(part + "-*.o"))]


def shipped(name, sources):
    """Build a program from the given sources and the objects of the op library."""
    build.build(verbose=False)
    abi = [flag for flag in build.tensorflow_flags()["compile"] if flag.startswith("-D")]
    return linked(name, sources, SHIPPED + abi, objects())


@pytest.fixture(scope="module")
def all_tests():
    program = shipped("all_tests", [HERE / "check_main.cc", together([HERE / (name + ".cc") for name in TESTS])])
    yield program
    program.unlink()


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.timeout_s(240)  # the first test compiles
def test_the_core_does_what_its_tests_say(all_tests, name):
    assert "ok " in run([all_tests, name])


@pytest.mark.long
@pytest.mark.parametrize(("name", "sanitizer"), [
    (name, sanitizer) for name in TESTS for sanitizer in SANITIZERS if sanitizer != "thread" or name in WITH_THREADS])
@pytest.mark.timeout_s(600)
def test_the_core_is_clean_under_the_sanitizers(name, sanitizer):
    product = [source for folder in FOLDERS for source in sorted(folder.glob("*.cc"))]
    sources = [HERE / "check_main.cc", HERE / (name + ".cc"), *product]
    program = linked("{}-{}".format(name, sanitizer), sources, SANITIZERS[sanitizer], [])
    assert "ok " in run([program])
    program.unlink()


@pytest.mark.long
@pytest.mark.parametrize("source", sorted(path.relative_to(build.SOURCES).as_posix()
                                          for path in build.SOURCES.glob("*/*.cc")))
def test_each_source_compiles_without_the_others_of_its_unit(source):
    unit = units.Unit("alone", (source,), "")
    flags = units.flags_of(unit, build.tensorflow_flags()["compile"], {})
    if unit.needs_tensorflow:  # nor with the headers that all sources include first
        del flags[flags.index("-include"):flags.index("-include") + 2]
    run(["g++", *flags, "-I", build.SOURCES, "-I", build.GENERATED, "-fsyntax-only", build.SOURCES / source])


def initial_row_cases():
    numbers = random.Random(3)
    kinds = [(0, 0.1, 0.0, 3.0), (1, -1.0, 1.0, 1.0), (1, 0.0, 0.05, 0.3), (2, 0.0, 1.0, 1.0), (2, 3.0, 1e-3, 0.7),
             (3, 0.0, 1.0, 1.0), (3, -0.5, 2.5, 0.1)]
    for kind in kinds:
        for key in (0, 1, -1, 2 ** 63 - 1, -(2 ** 63), numbers.getrandbits(62)):
            for seed in (0, 2 ** 64 - 1, numbers.getrandbits(64)):
                yield (seed, *kind, key, 9)
    yield (7, 2, 0.0, 1.0, 1.0, 12345, 20000)  # long enough for the tails


def hexadecimal(row):
    return ["%08x" % struct.unpack("<I", struct.pack("<f", value)) for value in row]


def require_equal_rows(program, cases):
    """Compare the printed rows with the reference. ``cases`` are the arguments of its ``row``, including the pool."""
    lines = []
    for *fields, pool in cases:
        words = [word for row in pool for word in hexadecimal(row)]
        lines.append(" ".join([*map(repr, fields), str(len(pool)), *words]) + "\n")
    printed = subprocess.run([str(program)], check=True, input="".join(lines), stdout=subprocess.PIPE, text=True).stdout
    for case, line in zip(cases, printed.splitlines()):
        assert line.split() == hexadecimal(initial_rows.row(*case)), case
    assert len(printed.splitlines()) == len(cases)


@pytest.fixture(scope="module")
def print_initial_rows():
    program = shipped("print_initial_rows", [HERE / "print_initial_rows.cc"])
    yield program
    program.unlink()


@pytest.mark.smoke
@pytest.mark.timeout_s(240)
def test_initial_rows_are_bit_equal_to_their_twin(print_initial_rows):
    require_equal_rows(print_initial_rows, [(*case, ()) for case in initial_row_cases()])


def whole_numbers(low, bits):
    """Return a strategy for all integers of the range, with both ends more often."""
    high = low + (1 << bits) - 1
    return st.one_of(st.integers(low, high), st.sampled_from([low, high, 0, 1]))


SEEDS, KEYS, DIMS = whole_numbers(0, 64), whole_numbers(-(2 ** 63), 64), st.integers(1, 40)
PARAMETERS = st.floats(-1e30, 1e30)
SCALES = st.one_of(st.just(1.0), st.floats(-10.0, 10.0))
DISTRIBUTIONS = st.sampled_from(
    [initial_rows.CONSTANT, initial_rows.UNIFORM, initial_rows.NORMAL, initial_rows.TRUNCATED_NORMAL])


def pools(dim):
    row = st.lists(st.floats(-2.0 ** 100, 2.0 ** 100, width=32), min_size=dim, max_size=dim)
    return st.tuples(st.just(dim), st.lists(row, min_size=1, max_size=9))


@settings(max_examples=example_count(50, 500))
@given(cases=st.lists(st.tuples(SEEDS, DISTRIBUTIONS, PARAMETERS, PARAMETERS, SCALES, KEYS, DIMS, st.just(())),
                      min_size=1, max_size=20))
@pytest.mark.timeout_s(240)
def test_rows_of_any_distribution_seed_key_and_length_are_bit_equal_to_their_twin(print_initial_rows, cases):
    require_equal_rows(print_initial_rows, cases)


@settings(max_examples=example_count(40, 400))
@given(seed=SEEDS, scale=SCALES, keys=st.lists(KEYS, min_size=1, max_size=20), pool=DIMS.flatmap(pools))
@pytest.mark.timeout_s(240)
def test_rows_picked_from_any_pool_are_bit_equal_to_their_twin(print_initial_rows, seed, scale, keys, pool):
    dim, rows = pool
    require_equal_rows(print_initial_rows, [(seed, initial_rows.POOL, 0.0, 0.0, scale, key, dim, rows) for key in keys])


@pytest.fixture(scope="module")
def print_memory_rooms():
    program = shipped("print_memory_rooms", [HERE / "print_memory_rooms.cc"])
    yield program
    program.unlink()


GIB = 1 << 30
GROUPS = {
    "none": ("", {}),
    "version 1": ("4:cpu,memory:/a/b\n3:cpu:/a\n", {
        "memory/memory.limit_in_bytes": 8 * GIB, "memory/memory.usage_in_bytes": GIB,
        "memory/a/b/memory.limit_in_bytes": 3 * GIB, "memory/a/b/memory.usage_in_bytes": 2 * GIB,
        "memory/a/b/memory.stat": "inactive_file 7\ntotal_inactive_file 4096\nodd line of text\n"}),
    "version 2": ("0::/a\n", {"a/memory.max": 4 * GIB, "a/memory.current": 4 * GIB + 5,
                              "a/memory.stat": "anon 5\ninactive_file 1048576\n",
                              "memory.max": "max\n", "memory.current": 3}),
    "both, in a container": ("1:name=systemd:/x\n0::/not/here/../../\n", {
        "unified/memory.max": GIB, "unified/memory.current": 2 * GIB, "memory.max": str(2 ** 63 - 4096),
        "memory.current": 1}),
}


@pytest.mark.parametrize("groups", sorted(GROUPS))
@pytest.mark.timeout_s(240)
def test_the_memory_there_is_is_what_the_twin_says(print_memory_rooms, tmp_path, groups):
    own, files = GROUPS[groups]
    places = memory.Places(str(tmp_path), str(tmp_path / "meminfo"), str(tmp_path / "groups"), str(tmp_path / "cgroup"))
    (tmp_path / "meminfo").write_text("MemTotal:  99 kB\nMemAvailable:   7654321 kB\n")
    (tmp_path / "groups").write_text(own)
    for name, text in files.items():
        path = tmp_path / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(text))
    rooms = [room for room in [*memory.group_rooms(places), memory.machine_room(places.meminfo)] if room is not None]
    printed = run([print_memory_rooms, places.meminfo, places.own_groups, places.group_root])
    assert printed.splitlines() == ["{} {}".format(room.free_bytes, room.text) for room in rooms]
    assert len(rooms) == {"none": 1, "version 1": 3, "version 2": 2, "both, in a container": 2}[groups]


def test_the_memory_there_is_here_is_what_the_twin_says(print_memory_rooms):
    places = memory.Places()
    printed = run([print_memory_rooms, places.meminfo, places.own_groups, places.group_root]).splitlines()
    ours = [room for room in [*memory.group_rooms(places), memory.machine_room(places.meminfo)] if room is not None]
    assert len(printed) == len(ours) > 0
