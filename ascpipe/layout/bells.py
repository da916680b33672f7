"""States of a bell, and limits of how long its owner sleeps and spins; the same in Python and C++."""
AWAKE = 0
ASLEEP = 1  #: any ring wakes it
PAUSING = 2  #: work may gather: only a ring of one that waits wakes it

SLICE_MS = 50  #: longest sleep while a step waits: a stop, a dead supervisor and Ctrl-C are seen between two
#: longest sleep while there is no work, after shorter ones: work, a stop and a failure ring
IDLE_SLICE_MS = 1000
GRACE_MS = 20  #: a publisher may lose its core between publishing and ringing
LEAST_SPIN_NS = 20_000  #: after a wait that was shorter
