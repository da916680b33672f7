"""Plain-Python twins of ``ascpipe/kernels/asks.py``."""
AWAKE, ASLEEP = 0, 1


class Listener:
    """A bell, by the state of its owner."""

    def __init__(self, waiting, may_pause):
        self.waiting, self.may_pause, self.waits = waiting, may_pause, False


def look_at_bells(listeners):
    for listener in listeners:
        listener.waits = listener.waiting == ASLEEP if listener.may_pause else listener.waiting != AWAKE
    return any(listener.waits for listener in listeners)
