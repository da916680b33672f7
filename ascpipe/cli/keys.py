"""Names of the keys that a terminal sends."""
from typing import List

_NAMES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\x1b[5~": "pageup",
          b"\x1b[6~": "pagedown", b"\x1b[H": "home", b"\x1b[1~": "home", b"\r": "enter", b"\n": "enter",
          b"\x7f": "backspace", b"\x08": "backspace", b"\x1b": "escape"}


def names_in(sent: bytes) -> List[str]:
    """Return the names of the pressed keys, for the bytes that a terminal has sent. The name of a key is a character,
    or a word such as ``"up"``.

    Unknown sequences and control characters are omitted. For empty input, the result is ``["end of input"]``.
    """
    if not sent:
        return ["end of input"]
    names = []
    while sent:
        code = next((code for code in sorted(_NAMES, key=len, reverse=True) if sent.startswith(code)), b"")
        if code == b"\x1b" and len(sent) > 1:  # a sequence of another key: skip it
            end = next((index for index, byte in enumerate(sent[2:], 3) if 0x40 <= byte <= 0x7e), len(sent))
            sent = sent[end:]
            continue
        if code:
            names.append(_NAMES[code])
            sent = sent[len(code):]
            continue
        length = next((length for length in range(1, 5) if _character(sent[:length])), 0)
        text = _character(sent[:length])
        names += [text] if text.isprintable() and text else []
        sent = sent[length or 1:]
    return names


def _character(data: bytes) -> str:
    """Decode ``data`` if it is exactly one UTF-8 character. Otherwise, return an empty string."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) == 1 else ""
