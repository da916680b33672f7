"""Runs commands of ``ascpipe`` in forks of the test process, where most of their imports are done.

Such a command takes a tenth of the processor time of one that is executed. The commands of
``tests/integration/test_documented_commands.py`` and those on terminals are executed.
"""
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from typing import Any, Dict, Optional

from tests.support.programs.exit_codes import exit_code


def ascpipe(*arguments: Any, cwd: str = "/",
            env: Optional[Dict[str, str]] = None) -> "subprocess.CompletedProcess[str]":
    """Run ``ascpipe ARGUMENTS`` to its end, as ``subprocess.run`` does.

    Args:
        arguments: of the command line.
        cwd: its working directory.
        env: its environment; that of the test by default.
    """
    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _be(words, cwd, env, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "surrogateescape"))
    return subprocess.CompletedProcess(["ascpipe", *words], code, *texts)


def _be(words: "list[str]", cwd: str, env: Optional[Dict[str, str]], out: int, err: int) -> None:
    """Be the process of a command. It never returns."""
    code = 1
    try:
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        for given, standard in ((out, 1), (err, 2)):
            os.dup2(given, standard)
        sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        os.chdir(cwd)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        sys.argv = ["ascpipe", *words]
        warnings.resetwarnings()  # of a test they are errors
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        runpy.run_module("ascpipe", run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = exit_code(ended)
    except BaseException:  # noqa: BLE001  (no code of the test may run here)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
