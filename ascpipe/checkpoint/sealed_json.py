"""JSON records that contain a digest of their other fields, so that any changed byte is detected.

The digest is in the field ``seal``. The encoding is canonical: equal values have equal bytes.
"""
import json
from typing import Any, Dict, Iterable

from ascpipe.checkpoint.digests import digest_of
from ascpipe.errors.base import shown

_SEAL = "seal"
_DIGITS = 20  #: length of -2**63, the longest number. The limit bounds the parsing time


def encoded(content: Dict[str, Any]) -> bytes:
    """Encode fields and their digest as a record. Raise ``ValueError`` if a number is not finite."""
    return _text({**content, _SEAL: digest_of(_text(content))})


def decoded(record: bytes) -> Dict[str, Any]:
    """Return the fields of a record, without the digest.

    Raises:
        ValueError: any byte differs from the bytes that ``encoded`` returns for these fields.
    """
    try:
        content = json.loads(record.decode("ascii"), parse_int=_integer, parse_constant=_no_constant)
        if not isinstance(content, dict) or _SEAL not in content:
            raise ValueError("it is not a sealed record")
        del content[_SEAL]
        if encoded(content) != record:
            raise ValueError("its text does not match its seal")
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return content


def _text(content: Dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode("ascii")


def _integer(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError("it has a number of {} digits".format(len(text)))
    return int(text)


def _no_constant(text: str) -> Any:
    raise ValueError("{} is not a finite number".format(text))


def fields(content: Any, names: Iterable[str]) -> Dict[str, Any]:
    """Return ``content``. Raise ``ValueError`` unless ``content`` is a JSON object whose fields are exactly ``names``.
    """
    wanted = set(names)
    if not isinstance(content, dict) or set(content) != wanted:
        raise ValueError("expected the fields {}, not {}".format(
            sorted(wanted), shown(sorted(content) if isinstance(content, dict) else content)))
    return content


def array(content: Any) -> list:
    """Return ``content``. Raise ``ValueError`` unless ``content`` is a JSON array."""
    if not isinstance(content, list):
        raise ValueError("expected an array, not {}".format(shown(content)))
    return content
