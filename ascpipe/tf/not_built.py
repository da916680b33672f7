"""What the reference has and ascpipe does not have yet: refused by name, never ignored."""
from ascpipe.errors import AscpipeError


class NotBuiltYetError(AscpipeError, NotImplementedError):
    """An argument or a call asks for something that ascpipe cannot do yet.

    Attributes:
        what: the argument or call, with its value.
        instead: what to do.
    """

    code = "E600"
    fields = ("what", "instead")
    template = "{what} is not built yet in ascpipe: {instead}"

    what: str
    instead: str
