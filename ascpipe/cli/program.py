"""Runs a program as ``python PROGRAM ARGS...`` does, with a folder of stand-ins last on its path.

    python program.py STANDINS COLUMNS PROGRAM ARGS...

``ascpipe run`` becomes this; a program of its own, so that nothing of the command line is loaded beside the user's. The
folder is not named in the environment, as it is for this program and not for those that it starts. COLUMNS is empty,
or JSON: what ``ascpipe.tf.use_for_feature_columns`` is given as soon as the program has imported TensorFlow.

As one of several ranks (``ascpipe run --ranks``) the program finds its rank in the variables that it reads, and why
it failed is left for the launcher.
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
_INIT = 1  # the parent of orphans


class _ProgramLoader(importlib.machinery.SourceFileLoader):
    """Python neither reads nor writes compiled files for the program that it was called with."""

    def get_code(self, fullname: str) -> types.CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


class _AfterTensorFlow(importlib.abc.MetaPathFinder):
    """Calls ``use_for_feature_columns`` when TensorFlow was imported: not before the program wants it, which may set
    variables of its environment first.

    Args:
        settings: its arguments.
    """

    def __init__(self, settings: Dict[str, int]) -> None:
        self._settings = settings

    def find_spec(self, fullname: str, path: Optional[Sequence[Union[bytes, str]]],
                  target: Optional[types.ModuleType] = None) -> Optional[importlib.machinery.ModuleSpec]:
        """The loader that Python finds, which does this besides; once."""
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
        # By its name: the command line knows nothing of TensorFlow, which is the program's.
        importlib.import_module("ascpipe.tf").use_for_feature_columns(**self._settings)


def main() -> None:
    """Returns where the program ends; what it raises goes up."""
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
    """The kernel kills this process when the shell ends by which horovodrun started it: a launcher that ends its ranks
    asks that shell for its children, which may not have begun, and then kills the shell alone and waits for us."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != shell or shell == _INIT:  # it ended before the line above took effect
        os._exit(1)


def _run_as_rank(program: Callable[[], None]) -> None:
    from ascpipe import ranks

    os.environ.update(ranks.told(os.environ))
    try:
        program()
    except KeyboardInterrupt:
        raise  # no failure of the program
    except SystemExit as end:
        if end.code not in (None, 0):
            ranks.leave_cause("exit code {}".format(end.code) if isinstance(end.code, int) else str(end.code))
        raise
    except BaseException as error:
        ranks.leave_cause(ranks.cause_of(error))
        raise


def _know_levels() -> None:
    """Programs that take a level from their settings spell it "Debug", too."""
    for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL):
        name = logging.getLevelName(level)
        for spelling in (name.lower(), name.capitalize(), name):  # the last one is what records show
            logging.addLevelName(level, spelling)


if __name__ == "__main__":
    main()
