"""Base class of all errors of ascpipe, and functions that limit the length of error messages."""
import reprlib
from typing import TYPE_CHECKING, Any, ClassVar, Optional, Tuple

from ascpipe.errors import api_names

_MAX_VALUE = 200
_MAX_TEXT = 8000  #: Longer messages are cut in the middle, since the end contains the recommended action.


class AscpipeError(Exception):
    """Base class of all errors of ascpipe.

    Attributes:
        code: stable name of the error, such as ``"E211"``.
    """

    code = "E100"
    fields: ClassVar[Tuple[str, ...]] = ("text",)  #: names of the arguments and attributes
    template: ClassVar[str] = "{text}"

    _received: Optional[str] = None

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """Return an attribute named in ``fields``."""

    def __init__(self, *values: Any) -> None:
        if len(values) != len(self.fields):
            raise TypeError("{} takes {}".format(type(self).__name__, ", ".join(self.fields)))
        for name, value in zip(self.fields, values):
            setattr(self, name, value)
        super().__init__(*values)  # pickling passes these arguments to the constructor

    def sentence(self) -> str:
        """Return the message without the code, with at most 8000 characters."""
        text = api_names.in_names_of_program(self._text()) if self._received is None else self._received
        return shortened(text, _MAX_TEXT)

    def _text(self) -> str:
        return self.template.format(**{name: getattr(self, name) for name in self.fields})

    def __str__(self) -> str:
        return "{}: {}".format(self.code, self.sentence())


def shown(value: Any) -> str:
    """Return the ``repr`` of a value for an error message. The result has at most 200 characters."""
    return shortened(_SHORT.repr(value), _MAX_VALUE)


def shortened(text: str, most: int) -> str:
    """Return ``text``. If the text has more than ``most`` characters, omit its middle."""
    if len(text) <= most:
        return text
    cut = "...({} characters)...".format(len(text))
    end = (most - len(cut)) // 3
    return text[:most - len(cut) - end] + cut + text[len(text) - end:]


class _Short(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlong = 60
        self.maxstring = _MAX_VALUE
        self.maxother = _MAX_VALUE
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = 10

    def repr_int(self, x: int, level: int) -> str:
        """Return the ``repr`` of an integer, or only the size of a huge integer, which Python may refuse to format."""
        return super().repr_int(x, level) if x.bit_length() < 1000 else "an integer of {} bits".format(x.bit_length())


_SHORT = _Short()
