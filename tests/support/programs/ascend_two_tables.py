"""Runs the example with two tables several times, one after the other, in one process; run it by ``ascpipe run``.

    ascend_two_tables.py '[["folder", "--option", ...], ...]'

Each run has a graph of its own, and its folder as working directory.  One that fails ends the program.
"""
import json
import logging
import os
import sys
import warnings

warnings.simplefilter("ignore")

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../examples/two_tables"))

import main as example
import tensorflow as tf


def run(folder, *options):
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    sys.argv = ["main.py", *options]
    with tf.Graph().as_default():
        example.main()


if __name__ == "__main__":
    logging.disable(logging.INFO)
    for arguments in json.loads(sys.argv[1]):
        print(*arguments, flush=True)
        run(*arguments)
