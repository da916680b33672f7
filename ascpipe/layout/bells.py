"""Limits of how long the owner of a bell sleeps and spins; the same in Python and C++."""
SLICE_MS = 50  #: longest sleep: a stop, a dead supervisor and Ctrl-C are seen between two
GRACE_MS = 20  #: a publisher may lose its core between publishing and ringing
LEAST_SPIN_NS = 20_000  #: after a wait that was shorter
