"""Compiles and runs the C++ tests of the core: with the objects of the op library, and with sanitizers."""
import hashlib
import os
import random
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ascpipe.tfops import build
from tests.reference import initial_rows

HERE = Path(__file__).resolve().parent
CORE = build.SOURCES / "core"
FOLDER = build.OBJECTS / "tests"

TESTS = sorted(path.stem for path in HERE.glob("test_*.cc"))
WITH_THREADS = ("test_stream", "test_waiter")
FLAGS = ["-std=c++14", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", str(build.SOURCES),
         "-I", str(HERE)]
SHIPPED = ["-O1", "-DNDEBUG"]  # of the tests themselves; the core is as in the library
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
    """The object of a source, compiled once per content of what it may be made from."""
    digest = hashlib.sha256(" ".join(flags).encode())
    for path in [source, *sorted(HERE.glob("*.h")), *sorted(CORE.glob("*.h"))]:
        digest.update(path.name.encode() + path.read_bytes())
    target = FOLDER / "{}-{}.o".format(source.stem, digest.hexdigest()[:16])
    if not target.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        fresh = target.with_suffix(".{}".format(os.getpid()))
        run(["g++", *FLAGS, *flags, "-x", "c++", "-c", source, "-o", fresh])
        fresh.replace(target)
    return target


def linked(name, sources, flags, objects):
    """A program of the given sources and objects."""
    with ThreadPoolExecutor(build.JOBS) as pool:
        parts = [*pool.map(lambda source: compiled(source, flags), sources), *objects]
    program = FOLDER / "{}-{}".format(name, os.getpid())
    run(["g++", *FLAGS, *flags, *parts, "-o", program])
    return program


def shipped(name, sources):
    """A program over the very objects of the op library."""
    build.build(verbose=False)
    abi = [flag for flag in build.tensorflow_flags()["compile"] if flag.startswith("-D")]
    return linked(name, sources, SHIPPED + abi, sorted(build.OBJECTS.glob("core-*.o")))


@pytest.fixture(scope="module")
def all_tests():
    program = shipped("all_tests", [HERE / "check_main.cc", *(HERE / (name + ".cc") for name in TESTS)])
    yield program
    program.unlink()


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.timeout_s(240)  # the first one compiles
def test_the_core_does_what_its_tests_say(all_tests, name):
    assert "ok " in run([all_tests, name])


@pytest.mark.long
@pytest.mark.parametrize(("name", "sanitizer"), [
    (name, sanitizer) for name in TESTS for sanitizer in SANITIZERS if sanitizer != "thread" or name in WITH_THREADS])
@pytest.mark.timeout_s(600)
def test_the_core_is_clean_under_the_sanitizers(name, sanitizer):
    sources = [HERE / "check_main.cc", HERE / (name + ".cc"), *sorted(CORE.glob("*.cc"))]
    program = linked("{}-{}".format(name, sanitizer), sources, SANITIZERS[sanitizer], [])
    assert "ok " in run([program])
    program.unlink()


def initial_row_cases():
    numbers = random.Random(3)
    kinds = [(0, 0.1, 0.0, 3.0), (1, -1.0, 1.0, 1.0), (1, 0.0, 0.05, 0.3), (2, 0.0, 1.0, 1.0), (2, 3.0, 1e-3, 0.7),
             (3, 0.0, 1.0, 1.0), (3, -0.5, 2.5, 0.1)]
    for kind in kinds:
        for key in (0, 1, -1, 2 ** 63 - 1, -(2 ** 63), numbers.getrandbits(62)):
            for seed in (0, 2 ** 64 - 1, numbers.getrandbits(64)):
                yield (seed, *kind, key, 9)
    yield (7, 2, 0.0, 1.0, 1.0, 12345, 20000)  # long enough for the tails


@pytest.mark.timeout_s(240)
def test_initial_rows_are_bit_equal_to_their_twin():
    cases = list(initial_row_cases())
    program = shipped("print_initial_rows", [HERE / "print_initial_rows.cc"])
    lines = "".join(" ".join(repr(field) for field in case) + "\n" for case in cases)
    printed = subprocess.run([str(program)], check=True, input=lines, stdout=subprocess.PIPE, text=True).stdout
    program.unlink()
    for case, line in zip(cases, printed.splitlines()):
        expected = ["%08x" % struct.unpack("<I", struct.pack("<f", value)) for value in initial_rows.row(*case)]
        assert line.split() == expected, case
    assert len(printed.splitlines()) == len(cases)
