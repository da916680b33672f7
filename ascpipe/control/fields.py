"""Rules that validate the fields of messages: exact types, limits, and no unknown fields.

The arguments of a rule are a value and the name of its field. A rule returns the value, or raises ``MessageError`` with
that name.
"""
import dataclasses
from typing import Any, Callable, Dict, Mapping, Tuple, Type

from ascpipe.errors import MessageError

Rule = Callable[[Any, str], Any]

RULE = "rule"  #: metadata key of a dataclass field's rule


def fields(value: Any, where: str, rules: Mapping[str, Rule]) -> Dict[str, Any]:
    """Check that ``value`` is a map with exactly the fields in ``rules``, and check each field by its rule."""
    if type(value) is not dict:
        raise MessageError("{} is a {}, expected a map".format(where, type(value).__name__))
    if set(value) != set(rules):
        raise MessageError("{} has the fields {}, expected {}".format(
            where, ", ".join(sorted(value)) or "none", ", ".join(sorted(rules)) or "none"))
    return {name: rule(value[name], "{}.{}".format(where, name)) for name, rule in rules.items()}


def record(kind: Type[Any], also: Callable[[Any, str], None] = lambda record, where: None) -> Rule:
    """Return the rule for a map that is converted to dataclass ``kind``. ``also`` checks the converted record."""
    rules = {field.name: field.metadata[RULE] for field in dataclasses.fields(kind)}

    def check(value: Any, where: str) -> Any:
        made = kind(**fields(value, where, rules))
        also(made, where)
        return made

    return check


def of_type(kind: type) -> Rule:
    """Return the rule for a value whose type must be exactly ``kind``. A bool is not accepted as an int."""
    def check(value: Any, where: str) -> Any:
        if type(value) is not kind:
            raise MessageError("{} is a {}, expected {}".format(where, type(value).__name__, kind.__name__))
        return value

    return check


def integer(low: int, high: int) -> Rule:
    """Return the rule for an int from ``low`` to ``high``, inclusive."""
    is_int = of_type(int)

    def check(value: Any, where: str) -> Any:
        if not low <= is_int(value, where) <= high:
            raise MessageError("{} is {}, allowed are {} to {}".format(where, value, low, high))
        return value

    return check


def text(longest: int) -> Rule:
    """Return the rule for a str of 1 to ``longest`` characters."""
    is_str = of_type(str)

    def check(value: Any, where: str) -> Any:
        if not 0 < len(is_str(value, where)) <= longest:
            raise MessageError("{} has {} characters, allowed are 1 to {}".format(where, len(value), longest))
        return value

    return check


def printable(longest: int) -> Rule:
    """Return the rule for a str of 1 to ``longest`` printable characters, which are safe on a terminal."""
    is_text = text(longest)

    def check(value: Any, where: str) -> Any:
        if not is_text(value, where).isprintable():
            raise MessageError("{} is {!r}: control characters are not allowed".format(where, value))
        return value

    return check


def exact_bytes(size: int) -> Rule:
    """Return the rule for a bytes object of length ``size``."""
    is_bytes = of_type(bytes)

    def check(value: Any, where: str) -> Any:
        if len(is_bytes(value, where)) != size:
            raise MessageError("{} has {} bytes, expected {}".format(where, len(value), size))
        return value

    return check


def items(rule: Rule, longest: int, least: int = 1) -> Rule:
    """Return the rule for a list of ``least`` to ``longest`` items, each of which satisfies ``rule``. The result is a
    tuple.
    """
    is_list = of_type(list)

    def check(value: Any, where: str) -> Tuple[Any, ...]:
        if not least <= len(is_list(value, where)) <= longest:
            raise MessageError("{} has {} items, allowed are {} to {}".format(where, len(value), least, longest))
        return tuple(rule(item, "{}[{}]".format(where, i)) for i, item in enumerate(value))

    return check
