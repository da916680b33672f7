"""Result codes of a worker's compiled loop, and the function that finds the bells that must be rung.

The loop runs until Python code must act. The result code names the action.
"""
from ascpipe.kernels.atomics import load_acquire
from ascpipe.kernels.door import inner
from ascpipe.kernels.memory import array_at
from ascpipe.layout.bells import ASLEEP, AWAKE
from ascpipe.layout.structs import BELL

CONTINUE = 0  #: another step follows; a loop never returns this code
RING = 1  #: ring the bells whose owners sleep
PROVIDE = 2  #: provide resources that a table or a frame lacks
CARRY_OUT = 3  #: carry out rare actions of tables, and loads
ENDED = 4  #: no action: there is no work, all work must wait, or the limit of a call is reached

# Resources that a step may lack:
LACKS_NOTHING = 0
LACKS_SCRATCH = 1  #: scratch memory for the keys of the frame
LACKS_ENTRIES = 2  #: memory for new entries of the frame's keys
LACKS_CHANGES = 3  #: space in the view's ring of changes
LACKS_HOMES = 4  #: memory for home rows
LACKS_VICTIMS = 5  #: memory for the victim order
LACKS_IMAGES = 6  #: images, for a snapshot, of the entries that the record changes
LACKS_ROWS = 7  #: rows on disk, or free home rows: wait for the disk worker or for readers
LACKS_DISK = 8  #: a row that could not be read from disk, or free disk slots


@inner("boolean(Listener[::1])")
def look_at_bells(listeners):
    """Find the bells that must be rung. Before the call, the caller must have published data with a full fence.

    A bell must be rung if its owner sleeps. If the owner is pausing, the bell must be rung only if ``may_pause`` is 0.
    An owner that is awake checks for new data before it sleeps, so its bell need not be rung
    (see ``ascpipe.shm.bell``).

    Args:
        listeners: LISTENER[n]. ``waits`` is set to 1 if the bell must be rung, and to 0 otherwise.

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
