"""Defines the states of a daemon, and groups of them.  Imports nothing of ours."""

IDLE = "idle"  #: workers wait, no trainer
REGISTERED = "registered"  #: a trainer is connected, it has not started yet
SERVING = "serving"  #: segments are there, workers work
FAILED = "failed"  #: the session is over, its trainer has not left yet
STOPPED = "stopped"  #: on the way out

HAS_TRAINER = frozenset({REGISTERED, SERVING, FAILED})
HAS_SEGMENTS = frozenset({SERVING, FAILED})
