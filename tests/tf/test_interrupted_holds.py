"""Ctrl-C in the middle of a read, an evaluation or a save leaves nothing behind that later steps would wait for.

Jupyter and the interactive interpreter keep the traceback of the last error, so these tests keep it, too.
"""
import gc
import os
import signal
import sys
import threading

import numpy as np
import pytest

from ascpipe.tf import clean_up
from ascpipe.tf.running import asking, hold_between_steps, native
from ascpipe.tf.running.hold_between_steps import hold
from mx_rec.core.asc import start_asc_pipeline
from mx_rec.saver.saver import Saver
from tests.tf import programs
from tests.tf.one_table import batch, one_table

pytestmark = pytest.mark.timeout_s(60)
KEYS = np.array([1])


@pytest.fixture
def program(monkeypatch):
    """One table that is trained, in a session, and a wait that ends soon."""
    monkeypatch.setenv("ASCPIPE_WAIT_TIMEOUT_S", "5")
    with one_table([batch(1)] * 400, [1]) as made:
        start_asc_pipeline()
        with programs.session(inter_op_parallelism_threads=2) as run:
            made.start(run)
            made.run = run
            made.take()
            yield made


@pytest.fixture
def kept():
    """Tracebacks of all interrupts of a test."""
    tracebacks = []
    yield tracebacks
    tracebacks.clear()
    gc.collect()  # closes files of frames that were interrupted


def interrupted(act, kept):
    """Return whether ``act`` raised ``KeyboardInterrupt``, and keep its traceback."""
    try:
        act()
    except KeyboardInterrupt:
        kept.append(sys.exc_info()[2])
        return True
    return False


def actions(program, tmp_path):
    saver = Saver()
    return {"read": lambda: program.table.read(KEYS), "size": program.table.size,
            "items": lambda: [block.keys for block in program.table.items()],
            "save": lambda: saver.save(program.run, str(tmp_path / "model"), global_step=1),
            "save in the background": lambda: saver.save(program.run, str(tmp_path / "model"), global_step=1,
                                                         background=True)}


@pytest.mark.parametrize("name", ["read", "items", "save"])
def test_an_interrupt_just_after_a_call_of_the_library_releases_what_it_acquired(program, kept, name, tmp_path,
                                                                                monkeypatch):
    act = actions(program, tmp_path)[name]
    called = []
    plain = native.call

    def interrupting(number):
        def call(function, *arguments):
            plain(function, *arguments)
            called.append(function)
            if len(called) == number:
                raise KeyboardInterrupt

        return call

    def run(number):
        del called[:]
        with monkeypatch.context() as patched:  # the end of the program calls the library, too
            patched.setattr(native, "call", interrupting(number))
            act()

    run(0)
    calls = list(called)
    assert "asc_hold_take" in calls
    for number, function in enumerate(calls, 1):
        if function.endswith(("release", "end")):
            continue  # a second interrupt, during the clean-up
        # A save that waits less often calls the library less often.
        assert interrupted(lambda number=number: run(number), kept) or len(called) < number
        program.take()


@pytest.mark.parametrize("name", ["read", "items"])
def test_an_interrupt_at_any_line_of_a_block_releases_the_hold(program, kept, name, tmp_path):
    act = actions(program, tmp_path)[name]
    files = {module.__file__ for module in (clean_up, native, hold_between_steps, asking)}
    lines = []

    def traced(number):
        def trace(frame, event, _):
            if frame.f_code.co_filename not in files or frame.f_code.co_name in ("__exit__",):
                return None
            if event == "line":
                lines.append(frame.f_lineno)
                if len(lines) == number:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        return trace

    def run(number):
        del lines[:]
        sys.settrace(traced(number))
        try:
            act()
        finally:
            sys.settrace(None)

    run(0)
    assert len(lines) > 10
    for number in range(1, len(lines) + 1):
        assert interrupted(lambda number=number: run(number), kept)
        program.take()


@pytest.mark.parametrize("name", ["read", "items", "size"])
def test_signals_in_a_loop_of_steps_and_reads_never_stop_training(program, kept, name, tmp_path):
    act = actions(program, tmp_path)[name]
    with pytest.raises(ZeroDivisionError), hold(alone=False):
        raise ZeroDivisionError

    def loop():
        while True:
            act()

    for number in range(20):
        timer = threading.Timer(0.05 + 0.0037 * number, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        assert interrupted(loop, kept)
        timer.join()
        program.take()
