"""Imports a program once, and forks a process for each call of one of its functions: a trainer without its imports.

    python -m tests.support.programs.fork_server MODULE

Reads a line of JSON for each call: ``function``, ``arguments``, and the files ``in``, ``out`` and ``err``. It prints
the pid of the process, and when that has ended, its exit code, negative for a signal. ``tests/support/forked_calls.py``
asks it.
"""
import atexit
import gc
import importlib
import json
import os
import signal
import sys
import threading
import warnings
from typing import Any, Dict

from tests.support.programs.exit_codes import exit_code

WHOLE_END = "TEST_WHOLE_END"  #: of the environment of a program whose end is tested: modules are taken apart, too

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    program = importlib.import_module("tests.support.programs." + sys.argv[1])


def say(said: int) -> None:
    sys.stdout.write("{}\n".format(said))
    sys.stdout.flush()


def be(call: Dict[str, Any]) -> None:
    """Be the process of a call. What the call raises is the interpreter's, as in a program that was executed."""
    os.setsid()  # as a shell's job is a process group of its own
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(call["environment"])
    files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in (call["out"], call["err"])]
    os.dup2(files[1], 2)
    say(os.getpid())
    os.dup2(files[0], 1)
    with open(call["in"]) as given:
        os.dup2(given.fileno(), 0)
    for descriptor in files:
        os.close(descriptor)
    code = 0
    try:
        getattr(program, call["function"])(*call["arguments"])
    except SystemExit as ended:
        if WHOLE_END in os.environ:
            raise
        code = exit_code(ended)
    if WHOLE_END not in os.environ:
        end(code)


def end(code: int) -> None:
    """End this process as the interpreter does, but leave its memory to the kernel.

    Taking modules apart writes to, and so copies, what is shared with the server: a tenth of a second.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    say(os.getpid())
    gc.freeze()  # a collection in a child would copy what it shares with this process
    for line in sys.stdin:
        call = json.loads(line)
        pid = os.fork()
        if pid == 0:
            be(call)
            return
        _, status = os.waitpid(pid, 0)
        say(-os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
