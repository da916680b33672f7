"""Codes are unique, errors survive a message and a pickle, log lines cannot be forged."""
import copy
import io

import pytest

from ascpipe import errors, logs
from ascpipe.checkpoint import errors as checkpoint_errors
from ascpipe.errors.base import shown

KINDS = sorted(errors._subclasses(errors.AscpipeError), key=lambda kind: kind.__name__)
TREES = {module.__name__: module.__doc__ for module in (errors, checkpoint_errors)}
OURS = [kind for kind in KINDS if kind.__module__.startswith(tuple(TREES))]
NUMBERS = ("_s", "_bytes", "_layout", "seconds")


def example(kind, text="x"):
    return kind(*[7 if name.endswith(NUMBERS) else text for name in kind.fields])


def test_no_two_errors_share_a_code():
    codes = [kind.code for kind in OURS]
    assert sorted(set(codes)) == sorted(codes)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_an_error_has_its_code_text_and_attributes_also_when_copied(kind):
    error = copy.copy(example(kind))  # by __reduce__, as pickling does
    assert str(error).startswith(kind.code + ": ")
    assert "{" not in str(error)
    assert error.args == tuple(getattr(error, name) for name in kind.fields)


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_the_tree_on_top_of_the_file_shows_it(kind):
    tree = "".join(TREES.values())
    assert "{} ".format(kind.__name__) in tree or kind is errors.AscpipeError
    assert kind.code in tree or kind is errors.AscpipeError


def test_a_received_error_has_the_class_of_its_code():
    error = errors.received("E210", "busy with pid 5")
    assert isinstance(error, errors.BusyError)
    assert str(error) == "E210: busy with pid 5"
    assert error.pid is None


def test_an_unknown_code_is_kept():
    error = errors.received("E998", "from the future")
    assert isinstance(error, errors.RemoteError)
    assert str(error) == "E998: from the future"
    assert errors.number_of(error.code) == 998


def test_the_wrong_number_of_attributes_is_an_error():
    with pytest.raises(TypeError, match="name, run_dir"):
        errors.NotRunningError("a")


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_no_value_makes_the_text_of_an_error_long_or_hides_its_end(kind):
    error = example(kind, "\u00e4" * 100_000)
    assert len(str(error)) <= 8000 + len("E100: ")
    assert str(error)[-20:] == (error.code + ": " + error._text())[-20:]
    assert len(str(errors.received(kind.code, "x" * 100_000))) <= 8000 + len("E100: ")


class Unshowable:
    def __repr__(self):
        raise RuntimeError


def test_a_value_is_shown_in_200_characters():
    for value in ("x" * 10**6, list(range(10**5)), {"k": "x" * 10**5}, range(10**12), [[["x" * 300] * 20] * 20] * 20):
        assert len(shown(value)) <= 200 and shown(value)[:1] == repr(value)[:1]
    assert (shown([1, "two"]), shown(10 ** 5000)) == ("[1, 'two']", "an integer of 16610 bits")
    assert shown(Unshowable()).startswith("<Unshowable instance at")


def test_a_name_cannot_forge_a_log_line():
    stream = io.StringIO()
    log = logs.open_log("role %d", stream)
    log.info("table %s", "a\n2026 daemon ERROR gone \x1b[31m")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert "\\n2026" in lines[0] and "\x1b" not in lines[0]
