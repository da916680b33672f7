"""A program that saves in the background again and again, and says what its process keeps of that."""
import gc
import tempfile

from ascpipe.tf import Saver, wait_for_save
from tests.support.programs.scenarios import main, started
from tests.tf.one_table import DIM, OneTable, batch

KEYS, BATCH = 300000, 20000
ENTRIES_BYTES = 48 * KEYS  #: copied by each save
#: not a list, whose batches would be constants of the graph, which each save writes
SOURCE = tuple(batch(*range(first, first + BATCH)) for first in range(0, KEYS, BATCH))
TIERS = {"device": {"device_vocabulary_size": KEYS},
         "host": {"device_vocabulary_size": BATCH, "host_vocabulary_size": KEYS}}
IN_FRONT, BEHIND = 4, 16  #: saves: until TensorFlow has its buffers, too, and those that are looked at


def copies_bytes(tier):
    """Of the device rows of a tier, which a background save keeps as long as the pipeline runs."""
    return 4 * DIM * TIERS[tier]["device_vocabulary_size"]


def private_bytes():
    """What this process has written to and shares with no other.

    Pages of libraries are not among it: they become private when the last other process that has them ends.
    """
    gc.collect()
    with open("/proc/self/smaps_rollup") as file:
        return sum(1024 * int(line.split()[1]) for line in file if line.startswith("Private_Dirty:"))


def kept(tier):
    """Train all keys, save in the foreground, then in the background; training goes on beside each save."""
    program = OneTable(SOURCE, [0], stages=lambda data: data.repeat().prefetch(4), **TIERS[tier])
    with tempfile.TemporaryDirectory() as folder, started() as run:
        program.start(run)
        for _ in SOURCE:
            program.take()
        saver = Saver(max_to_keep=2)
        for step in range(IN_FRONT + BEHIND):
            if step == IN_FRONT:
                before = private_bytes()
            saver.save(run, folder + "/model", global_step=step, background=step >= IN_FRONT)
            program.take()
            wait_for_save()
        return {"kept_bytes": private_bytes() - before}


if __name__ == "__main__":
    main({"kept": kept})
