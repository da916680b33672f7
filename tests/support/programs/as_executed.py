"""A process that has imported TensorFlow becomes ``ascpipe run ...`` or ``python FILE``, as if it had been executed."""
import os
import runpy
import sys
import tempfile
import warnings
from typing import Dict, List
from unittest import mock

import tensorflow as tf

from ascpipe.cli import program
from ascpipe.cli import run as command

tf.estimator.Estimator  # noqa: B018  # is imported when it is first asked for


def ascpipe_run(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """Returns where the program ends; what it raises goes up.

    Args:
        arguments: of ``ascpipe run``, for one rank.
        folder: its working directory.
        environment: all of it.
    """
    _enter(folder, environment)
    with mock.patch.object(os, "execve") as execve:
        command.command.main(arguments, prog_name="ascpipe run", standalone_mode=False)
    _, (_, _, *sys.argv), variables = execve.call_args[0]
    sys.argv.insert(0, program.__file__)
    os.environ.update(variables)
    program.main()


def python(arguments: List[str], folder: str, environment: Dict[str, str]) -> None:
    """Run a file as ``python FILE ...`` does; what the program raises is raised.

    Args:
        arguments: path of the file, and the arguments of the program.
        folder: its working directory.
        environment: all of it.
    """
    _enter(folder, environment)
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(arguments[0]))
    runpy.run_path(arguments[0], run_name="__main__")


def _enter(folder: str, environment: Dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # imports may have asked for it before TMPDIR was set
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
