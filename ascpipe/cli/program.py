"""Program that runs another program like ``python PROGRAM ARGS...``, but with a folder of stand-ins in ``sys.path``.

::

    python program.py STANDINS COLUMNS PROGRAM ARGS...

``ascpipe run`` executes this separate program so that the user's process loads no modules of the command line. The
folder is not in ``PYTHONPATH``, because child processes must not use it. COLUMNS is empty, or JSON with arguments for
``ascpipe.tf.use_for_feature_columns``. This function is called immediately after the program has imported TensorFlow.

With several ranks (``ascpipe run --ranks``), this program adds the rank to the environment, and records the cause of a
failure for the launcher.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import os
import signal
import sys
import types
from typing import Any, Callable, Dict, Optional, Sequence, Union

_PR_SET_PDEATHSIG = 1
_INIT = 1  # parent of orphaned processes


class _ProgramLoader(importlib.machinery.SourceFileLoader):
    """Import loader that uses no compiled files (.pyc). Python also loads a main program without compiled files."""

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _AfterTensorFlow(importlib.abc.MetaPathFinder):
    """Import hook that calls ``use_for_feature_columns`` when the program has imported TensorFlow.

    The call is not made earlier, because the program may set environment variables before the import.

    Args:
        settings: keyword arguments of the call.
    """

    def __init__(self, settings: Dict[str, int]) -> None:
        self._settings = settings

    def find_spec(self, fullname: str, path: Optional[Sequence[Union[bytes, str]]],
                  target: Optional[types.ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        """Remove this hook, and wrap the loader with which Python will import TensorFlow."""
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderOfTensorFlow(spec.loader, self._settings)
        return spec


class _LoaderOfTensorFlow(importlib.abc.Loader):
    def __init__(self, plain: Any, settings: Dict[str, int]) -> None:
        self._plain = plain
        self._settings = settings

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[types.ModuleType]:
        module: Optional[types.ModuleType] = self._plain.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        self._plain.exec_module(module)
        # The import is by name, because the command line must not depend on TensorFlow.
        importlib.import_module("ascpipe.tf").use_for_feature_columns(**self._settings)


def main() -> None:
    """Run the program. Return when the program ends. Exceptions of the program are propagated."""
    shell = os.getppid()
    standins, columns, program = sys.argv[1:4]
    sys.argv = sys.argv[3:]
    sys.path[0] = os.path.dirname(os.path.realpath(program))
    sys.path.append(standins)
    _know_levels()
    if columns:
        sys.meta_path.insert(0, _AfterTensorFlow(json.loads(columns)))
    module = types.ModuleType("__main__")
    loader = _ProgramLoader("__main__", program)
    module.__dict__.update(__file__=program, __loader__=loader, __cached__=None)
    sys.modules["__main__"] = module
    if "ASCPIPE_RANKS_FOLDER" in os.environ:
        if os.environ.get("HOROVOD_CONTROLLER") == "gloo":
            _end_with_the_shell(shell)
        _run_as_rank(lambda: loader.exec_module(module))
    else:
        loader.exec_module(module)


def _end_with_the_shell(shell: int) -> None:
    """Tell the kernel to kill this process when the parent process exits. The parent process is a shell that horovodrun
    started.

    To end a rank, the launcher kills the children of that shell. If the shell has no children yet, the launcher kills
    only the shell, and then waits for this process.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != shell or shell == _INIT:  # the shell exited before the line above
        os._exit(1)


def _run_as_rank(program: Callable[[], None]) -> None:
    from ascpipe import rank_lifeline, ranks

    os.environ.update(ranks.told(os.environ))
    try:
        rank_lifeline.end_with_launcher(os.environ)
        program()
    except KeyboardInterrupt:
        raise  # not a failure of the program
    except SystemExit as end:
        if end.code not in (None, 0):
            ranks.leave_cause("exit code {}".format(end.code) if isinstance(end.code, int) else str(end.code))
        raise
    except BaseException as error:
        ranks.leave_cause(ranks.cause_of(error))
        raise


def _know_levels() -> None:
    """Register other spellings of log levels, such as "Debug", because programs read such levels from their
    settings.
    """
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        name = logging.getLevelName(level)
        for spelling in (name.lower(), name.capitalize(), name):  # log records show the last spelling
            logging.addLevelName(level, spelling)


if __name__ == "__main__":
    main()
