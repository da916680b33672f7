"""What a compiled loop of a worker asks of its caller, and which bells it finds waiting.

The loop goes on by itself until Python code has something to do: its result says what.
"""
from ascpipe.kernels.atomics import load_acquire
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.layout.bells import ASLEEP, AWAKE
from ascpipe.layout.structs import BELL

GO_ON = 0  #: nothing
RING = 1  #: the bells that wait
PROVIDE = 2  #: what a table or a frame lacks
CARRY_OUT = 3  #: rare actions of tables, and loads
ENDED = 4  #: nothing more: there is no work, or all of it must wait, or enough was done at a time

# What a step lacks.
LACKS_NOTHING = 0
LACKS_SCRATCH = 1  #: for the keys of the frame
LACKS_ENTRIES = 2  #: memory for entries for the frame's keys that have none
LACKS_CHANGES = 3  #: room in the view's ring of changes
LACKS_HOMES = 4  #: memory for home rows
LACKS_VICTIMS = 5  #: memory for the victim order
LACKS_IMAGES = 6  #: images of the entries that the record changes, for a snapshot
LACKS_ROWS = 7  #: rows that are on disk, or home rows that are not free yet: the disk worker is at it
LACKS_DISK = 8  #: a row that cannot be read, or disk slots that can be written


@inner("boolean(Listener[::1])")
def look_at_bells(listeners):
    """Look which owners wait for what was just published by a full fence; returns whether any does.

    An owner that is awake looks again before it sleeps, so it needs no ring (see ``ascpipe.shm.bell``).

    Args:
        listeners: LISTENER[n]; receive whether they must be rung.
    """
    found = False
    for i in range(listeners.shape[0]):
        listener = listeners[i]
        waiting = load_acquire(array_at(listener["bell_at"], 1, BELL)[0], "waiting", 0)  # SYNC bell: load
        waits = waiting == ASLEEP or (waiting != AWAKE and listener["may_pause"] == 0)
        listener["waits"] = 1 if waits else 0
        found = found or waits
    return found
