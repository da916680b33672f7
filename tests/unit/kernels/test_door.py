"""Of the compiled kernels, entries are loaded when they are imported, inner ones when they are needed."""
import importlib.util
import os
import subprocess
import sys

import numba
import numpy as np
import pytest

from ascpipe.kernels import compiler, door
from tests.support import compiling

compiled = pytest.mark.skipif(not compiling.HERE or numba.config.DISABLE_JIT, reason=compiling.REASON)

NAME = "ascpipe.kernels.made_for_a_test"
SOURCE = '''
from ascpipe.kernels.door import entry, inner


@inner("int64(int64)")
def within(a):
    return a + 1


@inner("int64(uint64)")
def signed(value):
    return value


@entry("int64(int64[::1], uint64)")
def outer(values, times):
    return within(values[0]) * signed(times)


@inner("int64(int64[::1])")
def alone(values):
    return 2 * values[0]


@inner("float64(float64[::1])", "int64(int64[::1])")
def either(values):
    return 2 * values[0]


@inner("int64(int64)", "float64(float64)")
def scalar(value):
    return 2 * value


def ask(values):
    return outer(values, 3)
'''
KERNELS = ("within", "signed", "outer", "alone", "either", "scalar")
#: a process of its own: what is loaded at import, how often it compiled, and results
OTHER_PROCESS = '''
import importlib.util, sys
import numpy as np
spec = importlib.util.spec_from_file_location({name!r}, sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules[{name!r}] = module
spec.loader.exec_module(module)
kernels = [getattr(module, name) for name in {kernels!r}]
print([kernel.__name__ for kernel in kernels if kernel.overloads])
print(module.ask(np.array([4])), module.alone(np.array([4])))
print(sum(sum(kernel.stats.cache_misses.values()) for kernel in kernels))
'''


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The module above; its machine code is kept beside it."""
    path = tmp_path / "made_for_a_test.py"
    path.write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))
    return path


@pytest.fixture
def load(source, monkeypatch):
    """Imports the module as if for the first time in a process."""
    def imported():
        spec = importlib.util.spec_from_file_location(NAME, str(source))
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, NAME, module)
        spec.loader.exec_module(module)
        return module

    return imported


def loaded(module):
    return {name for name in KERNELS if getattr(module, name).overloads}


@compiled
def test_an_entry_is_compiled_with_what_it_calls_and_later_loaded_without(load):
    assert loaded(load()) == {"within", "signed", "outer"}
    again = load()
    assert loaded(again) == {"outer"}
    assert not again.outer.stats.cache_misses
    assert again.ask(np.array([4])) == 15


@compiled
@pytest.mark.parametrize("wrong", [(np.array([4.0]),), (np.array([4], np.int32),), (4,), (), (np.array([4]), 1)],
                         ids=["floats", "short", "number", "nothing", "more"])
def test_an_inner_kernel_is_loaded_when_it_is_called_with_its_types_checked(load, wrong):
    module = load()
    assert "alone" not in loaded(module)
    with pytest.raises(TypeError):  # before it is loaded
        module.alone(*wrong)
    assert [module.alone(np.array([number])) for number in (4, 5)] == [8, 10]
    with pytest.raises(TypeError):  # and after
        module.alone(*wrong)
    assert len(module.alone.overloads) == 1


@compiled
def test_an_entry_takes_no_types_but_its_own(load):
    for _ in range(2):  # compiled, then from the cache
        with pytest.raises(TypeError):
            load().outer(np.array([4.0]), 3)


@compiled
def test_of_two_signatures_the_one_that_fits_is_called(load):
    for values in ([4], [4.5]):
        module = load()
        assert [type(module.either(np.array(values))) for _ in range(2)] == [type(values[0])] * 2
        assert module.either(np.array([4])) == 8
        assert module.either(np.array([4.5])) == 9.0
        assert len(module.either.overloads) == 2
        assert [module.scalar(values[0]) for _ in range(2)] == [2 * values[0]] * 2


@compiled
def test_a_second_process_compiles_nothing(source, tmp_path):
    program = OTHER_PROCESS.format(name=NAME, kernels=KERNELS)
    environment = dict(os.environ, NUMBA_CACHE_DIR=str(tmp_path / "kernels"))
    printed = [subprocess.run([sys.executable, "-c", program, str(source)], env=environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines() for _ in range(2)]
    assert printed[0] == ["['within', 'signed', 'outer']", "15 8", "4"]
    assert printed[1] == ["['outer']", "15 8", "0"]


@compiling.compiles
def test_without_the_compiler_a_declared_function_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(compiler.config, "DISABLE_JIT", 1)

    def function(a):
        return a

    assert door.inner("int64(int64)")(function) is function
    assert door.entry("int64(int64)")(function) is function
