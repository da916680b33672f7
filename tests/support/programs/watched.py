"""A program that trains, with rows that do not all fit on the device, until its standard input ends.

A line of its input is a pause: it says ``paused`` once no step runs, and goes on with the next line.
"""
import json
import select
import sys

from ascpipe.tf.running.process import Process
from mx_rec.core.asc import start_asc_pipeline
from tests.support.watched_training import DEVICE_ROWS, KEYS, ids
from tests.tf import one_table, programs

PAUSE_S = 0.02  #: between two steps; the tests need steps now and then, not full speed
TIERS = {"device_vocabulary_size": DEVICE_ROWS, "host_vocabulary_size": KEYS}


def say(**told):
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def line_of_input():
    """Return True if a line came, False if the input has ended, and None after a pause without either."""
    ready, _, _ = select.select([sys.stdin], [], [], PAUSE_S)
    return bool(sys.stdin.readline()) if ready else None


def train():
    batches = [one_table.batch(*batch) for batch in ids()]
    with one_table.one_table(batches, [0], stages=lambda data: data.repeat().prefetch(4), **TIERS) as program:
        start_asc_pipeline()
        with programs.session() as run:
            program.start(run)
            program.take()
            say(daemon=Process.current().running_pipeline().link.name)
            while True:
                asked = line_of_input()
                if asked is False:
                    return
                if asked:
                    say(paused=True)
                    sys.stdin.readline()
                program.take()


if __name__ == "__main__":
    train()
