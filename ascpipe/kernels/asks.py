"""Result codes of a worker's compiled loop, and the check for bells that must be rung.

The loop runs until Python code has something to do, which its result names.
"""
from ascpipe.kernels.atomics import load_acquire
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.layout.bells import ASLEEP, AWAKE
from ascpipe.layout.structs import BELL

CONTINUE = 0  #: within the loop: another step follows; a loop never returns it
RING = 1  #: ring the bells whose owners sleep
PROVIDE = 2  #: provide what a table or a frame lacks
CARRY_OUT = 3  #: carry out rare actions of tables, and loads
ENDED = 4  #: nothing: there is no work, all of it must wait, or the limit of a call is reached

# What a step lacks:
LACKS_NOTHING = 0
LACKS_SCRATCH = 1  #: scratch memory for the keys of the frame
LACKS_ENTRIES = 2  #: memory for entries for the frame's keys that have none
LACKS_CHANGES = 3  #: space in the view's ring of changes
LACKS_HOMES = 4  #: memory for home rows
LACKS_VICTIMS = 5  #: memory for the victim order
LACKS_IMAGES = 6  #: images of the entries that the record changes, for a snapshot
LACKS_ROWS = 7  #: rows on disk, or free home rows: wait for the disk worker, or for readers of freed rows
LACKS_DISK = 8  #: a row that could not be read, or free disk slots


@inner("boolean(Listener[::1])")
def look_at_bells(listeners):
    """Check which owners of bells sleep, after something was published by a full fence.

    An owner that is awake checks again before it sleeps, so it needs no ring (see ``ascpipe.shm.bell``).

    Args:
        listeners: LISTENER[n]; ``waits`` of each is set to 1 if its bell must be rung.

    Returns:
        True if any bell must be rung.
    """
    found = False
    for i in range(listeners.shape[0]):
        listener = listeners[i]
        waiting = load_acquire(array_at(listener["bell_at"], 1, BELL)[0], "waiting", 0)  # SYNC bell: load
        waits = waiting == ASLEEP or (waiting != AWAKE and listener["may_pause"] == 0)
        listener["waits"] = 1 if waits else 0
        found = found or waits
    return found
