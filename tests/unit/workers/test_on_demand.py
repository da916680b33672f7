"""Of the compiled kernels, those that Python code calls are loaded, and the others when somebody needs them."""
import importlib.util
import sys

import numba
import numpy as np
import pytest

from ascpipe.workers.on_demand import kernels_on_demand

pytestmark = pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")

NAME = "ascpipe.made_for_a_test"
SOURCE = '''
from numba import njit


@njit("int64(int64)", cache=True)
def inner(a):
    return a + 1


@njit("int64(int64[::1], uint64)", cache=True)
def outer(values, times):
    return inner(values[0]) * np_int(times)


@njit("int64(uint64)", cache=True)
def np_int(value):
    return value


@njit("int64(int64[::1])", cache=True)
def missed(values):
    return 2 * values[0]


def ask(values):
    return outer(values, 3)
'''


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Imports the module above as if for the first time in a process; its compiled kernels are kept."""
    path = tmp_path / "made_for_a_test.py"
    path.write_text(SOURCE)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "kernels"))

    def imported():
        spec = importlib.util.spec_from_file_location(NAME, str(path))
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, NAME, module)
        with kernels_on_demand():
            spec.loader.exec_module(module)
        return module

    return imported


def loaded(module):
    return {name for name in ("inner", "np_int", "outer", "missed") if getattr(module, name).overloads}


def test_what_python_calls_is_compiled_with_what_it_calls_and_later_loaded_without(load):
    assert loaded(load()) == {"inner", "np_int", "outer"}
    again = load()
    assert loaded(again) == {"outer"}
    assert not again.outer.stats.cache_misses
    assert again.ask(np.array([4])) == 15


def test_what_the_search_has_missed_is_loaded_when_it_is_called_with_its_types_checked(load):
    module = load()
    for wrong in ((np.array([4.0]),), (np.array([4], np.int32),), (4,), ()):
        with pytest.raises(TypeError):
            module.missed(*wrong)
        module = load()
    assert loaded(module) == {"outer"}
    assert [module.missed(np.array([number])) for number in (4, 5)] == [8, 10]
    with pytest.raises(TypeError):
        module.missed(np.array([4.0]))


def test_kernels_that_are_imported_otherwise_are_loaded_at_once_as_before(load):
    load()

    @numba.njit("int64(int64)")
    def one(a):
        return a

    assert one.overloads
