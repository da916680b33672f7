"""The base of all errors of ascpipe."""
from typing import TYPE_CHECKING, Any, ClassVar, Optional, Tuple


class AscpipeError(Exception):
    """Base of all.

    Attributes:
        code: stable name of the error, such as ``"E211"``.
    """

    code = "E100"
    fields: ClassVar[Tuple[str, ...]] = ("text",)  #: names of the arguments, which are also the attributes
    template: ClassVar[str] = "{text}"

    _received: Optional[str] = None

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any:
            """The attributes named in ``fields``."""

    def __init__(self, *values: Any) -> None:
        if len(values) != len(self.fields):
            raise TypeError("{} takes {}".format(type(self).__name__, ", ".join(self.fields)))
        for name, value in zip(self.fields, values):
            setattr(self, name, value)
        super().__init__(*values)  # its arguments, so that it survives pickling

    def sentence(self) -> str:
        """The text without its code."""
        return self._text() if self._received is None else self._received

    def _text(self) -> str:
        return self.template.format(**{name: getattr(self, name) for name in self.fields})

    def __str__(self) -> str:
        return "{}: {}".format(self.code, self.sentence())
