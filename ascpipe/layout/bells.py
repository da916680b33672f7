"""States of a bell, and limits of how long its owner sleeps and spins; the same in Python and C++."""
AWAKE = 0
ASLEEP = 1  #: any ring wakes it
PAUSING = 2  #: work may gather: only a ring of one that waits wakes it

SLICE_MS = 50  #: longest sleep: a stop, a dead supervisor and Ctrl-C are seen between two
GRACE_MS = 20  #: a publisher may lose its core between publishing and ringing
LEAST_SPIN_NS = 20_000  #: after a wait that was shorter
