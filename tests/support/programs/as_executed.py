"""A process that has imported TensorFlow becomes ``ascpipe run ...`` or ``python FILE``, as if it had been executed."""
import ctypes
import importlib
import json
import os
import runpy
import sys
import tempfile
import types
import warnings
from typing import Dict, List
from unittest import mock

import tensorflow as tf

import ascpipe.tf.api.installing  # noqa: F401
from ascpipe.cli import program
from ascpipe.cli import run as command
from tests.support.tensorflows import use_tensorflow_1

use_tensorflow_1()

CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 1 << 18  #: of sched.h and sys/mount.h

# Imported once for all programs. TensorFlow imports `estimator` when it is first used, and
# `contrib` when a program maps a dataset. `mx_rec` imports `installing`, which changes nothing before it is called.
tf.compat.v1.estimator.Estimator  # noqa: B018
if hasattr(tf, "contrib"):  # not in TensorFlow 2.15
    tf.contrib.framework  # noqa: B018


def ascpipe_run(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """Returns where the program ends; what it raises goes up.

    Args:
        arguments: of ``ascpipe run``, for one rank.
        folder: its working directory.
        environment: all of it.
    """
    enter(folder, environment)
    with mock.patch.object(os, "execve") as execve:
        command.command.main(arguments, prog_name="ascpipe run", standalone_mode=False)
    _, (_, _, standins, columns, *sys.argv), variables = execve.call_args[0]
    sys.argv = [program.__file__, standins, "", *sys.argv]
    os.environ.update(variables)
    if columns:  # the import hook of `program` would wait for an import of TensorFlow, which has been imported
        importlib.import_module("ascpipe.tf").use_for_feature_columns(**json.loads(columns))
    program.main()


def python(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """Run a program as ``python FILE ...``, ``python -m MODULE ...`` and ``python -c TEXT ...`` do; what it raises is
    raised.

    Args:
        arguments: all that follow ``python``.
        folder: its working directory.
        environment: all of it.
    """
    enter(folder, environment)
    if arguments[0] == "-W":
        warnings.simplefilter(arguments[1])
        arguments = arguments[2:]
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = folder
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = folder
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(arguments[1], "<string>", "exec"), vars(main))
        return
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def python_apart(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """`python` in a mount namespace of its own, as after ``unshare -m``."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "there is no mount namespace")
    python(arguments, folder, environment)


def enter(folder: str, environment: Dict[str, str]) -> None:
    """Take the working directory and the environment of a process that is executed."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # imports may have asked for it before TMPDIR was set
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
