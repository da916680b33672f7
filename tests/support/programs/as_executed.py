"""A process that has imported TensorFlow becomes ``ascpipe run ...``, as if it had been executed."""
import os
import sys
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
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    if environment.get("PYTHONWARNINGS") == "ignore":
        warnings.simplefilter("ignore")
    with mock.patch.object(os, "execve") as execve:
        command.command.main(arguments, prog_name="ascpipe run", standalone_mode=False)
    _, (_, _, *sys.argv), variables = execve.call_args[0]
    sys.argv.insert(0, program.__file__)
    os.environ.update(variables)
    program.main()
