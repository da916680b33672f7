"""States of a bell, and maximum times for sleeping and spinning. C++ has the same values."""
AWAKE = 0
ASLEEP = 1  #: any ring wakes the owner
PAUSING = 2  #: the owner lets work accumulate; only a process that waits for the owner wakes it

SLICE_MS = 50  #: maximum sleep while a step waits, between checks for a stop, a dead supervisor and Ctrl-C
#: maximum sleep without work, after shorter sleeps; work, a stop and a failure ring the bell
IDLE_SLICE_MS = 1000
GRACE_MS = 20  #: additional wait, because a publisher may be preempted between publishing and ringing
LEAST_SPIN_NS = 20_000  #: minimum spin time after a short wait
