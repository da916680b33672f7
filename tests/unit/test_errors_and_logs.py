"""Codes are unique, errors survive a message and a pickle, log lines cannot be forged."""
import copy
import io

import pytest

from ascpipe import errors, logs
from ascpipe.checkpoint import errors as checkpoint_errors

KINDS = sorted(errors._subclasses(errors.AscpipeError), key=lambda kind: kind.__name__)
TREES = {module.__name__: module.__doc__ for module in (errors, checkpoint_errors)}
OURS = [kind for kind in KINDS if kind.__module__ in TREES]


def example(kind):
    return kind(*[7 if name.endswith(("_s", "_bytes", "_layout")) else "x" for name in kind.fields])


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
    tree = TREES[kind.__module__]
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


def test_a_name_cannot_forge_a_log_line():
    stream = io.StringIO()
    log = logs.open_log("role %d", stream)
    log.info("table %s", "a\n2026 daemon ERROR gone \x1b[31m")
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert "\\n2026" in lines[0] and "\x1b" not in lines[0]
