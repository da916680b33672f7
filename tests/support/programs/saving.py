"""Saves beside step 1, which is there, and says when it begins: the program that is cut at its system calls.

    python -m tests.support.programs.saving DIRECTORY STEP
"""
import os
import sys

from tests.support import checkpoints

SLOTS = ("Adagrad_accumulator",)
BEFORE = [checkpoints.content("user", 9, 3, seed=1, slots=SLOTS)]
AFTER = [checkpoints.content("user", 11, 2, seed=3, slots=SLOTS)]
BEGIN, END = "/the-second-save-begins", "/the-second-save-ended"  #: looked up, so that a trace shows them


def main(directory, step):
    """The second save."""
    os.path.exists(BEGIN)
    checkpoints.save(directory, step, AFTER, dense="after")
    os.path.exists(END)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
