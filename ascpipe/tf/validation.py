"""Declarative argument checks: the decorator ``checked`` declares one rule per parameter.

An ``ArgumentError`` is raised for an argument with the wrong type, range, length or class. The message contains the
function, the argument, its value and the limit. Only passed arguments are checked, so a default value may violate the
rule of its parameter.
"""
import collections
import difflib
import functools
import inspect
import logging
import unicodedata
from typing import Any, Callable, Dict, Iterable, Mapping, Set, TypeVar, Union

import numpy as np
import tensorflow as tf

from ascpipe.errors import ArgumentError, UnexpectedArgumentError
from ascpipe.errors.base import shown

_log = logging.getLogger(__name__)

MAX_INT32 = 2147483647

_NUMBERS = (int, float, np.number, tf.Tensor, tf.Variable, tf.IndexedSlices)

_ignored: Dict[str, Set[str]] = collections.defaultdict(set)  #: function -> ignored arguments that were already logged

Function = TypeVar("Function", bound=Callable[..., Any])


class Rule:
    """Base class of rules for the value of one parameter. None is allowed if ``optional`` is True."""

    def __init__(self, *, optional: bool = False) -> None:
        self._optional = optional

    def check(self, name: str, value: Any) -> None:
        """Raise ``ArgumentError`` if ``value`` is not allowed for parameter ``name``."""
        if value is None and self._optional:
            return
        self._check(name, value)

    def _check(self, name: str, value: Any) -> None:
        raise NotImplementedError


class Bounded(Rule):
    """Base class of rules with a lower and an upper limit."""

    def __init__(self, low: Any, high: Any = MAX_INT32, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._low = low
        self._high = high


class Integer(Bounded):
    """Rule for an int (not a bool) in [low, high]."""

    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise ArgumentError("argument {}: {} is not int".format(name, shown(value)))
        _check_range(name, value, self._low, self._high)


class Float(Bounded):
    """Rule for a float in [low, high]. ``open_low`` excludes ``low``, and ``open_high`` excludes ``high``."""

    def __init__(self, low: float, high: float, *, open_low: bool = False, open_high: bool = False,
                 optional: bool = False) -> None:
        super().__init__(low, high, optional=optional)
        self._open_low = open_low
        self._open_high = open_high

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (float, np.floating)):
            raise ArgumentError("argument {}: {} is not float".format(name, shown(value)))
        _check_range(name, value, self._low, self._high, open_low=self._open_low, open_high=self._open_high)


class Number(Float):
    """Rule for a float or an int, with the same kinds of limits as ``Float``."""

    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        super()._check(name, value)


class Text(Bounded):
    """Rule for a str whose length is in [low, high]."""

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, str):
            raise ArgumentError("argument {}: {} is not str".format(name, shown(value)))
        if len(value) < self._low:
            raise ArgumentError("argument {}: {}: length is less than {}".format(name, shown(value), self._low))
        if len(value) > self._high:
            raise ArgumentError("argument {}: {}: length is bigger than {}".format(name, shown(value), self._high))


class PathText(Text):
    """Rule for a str whose length is in [low, high], without control characters and surrogates."""

    def _check(self, name: str, value: Any) -> None:
        super()._check(name, value)
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
            raise ArgumentError("argument {}: {} contains control characters or surrogates, which a path cannot have"
                                .format(name, shown(value)))


class Instance(Rule):
    """Rule for an instance of one of several classes."""

    def __init__(self, *classes: type, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._classes = classes

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, self._classes):
            raise wrong_type(name, value, " or ".join(kind.__name__ for kind in self._classes))


class Having(Rule):
    """Rule for an object with the given attributes, for example any object with the methods of a session."""

    def __init__(self, what: str, *attributes: str, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._what = what
        self._attributes = attributes

    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, type) or not all(hasattr(value, attribute) for attribute in self._attributes):
            raise wrong_type(name, value, self._what)


class Numbers(Rule):
    """Rule for a tensor, a number, a numeric array, or a list or tuple of such values."""

    def _check(self, name: str, value: Any) -> None:
        if not _are_numbers(value):
            raise wrong_type(name, value, "a tensor or numbers")


class IntegerScalar(Rule):
    """Rule for an integer, or a scalar array, tensor or variable of an integer dtype."""

    def _check(self, name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer, np.ndarray, tf.Tensor, tf.Variable)):
            raise wrong_type(name, value, "an int or a tensor of one integer")
        if isinstance(value, (int, np.integer)):
            return
        shape = tf.TensorShape(value.shape)
        if not tf.as_dtype(value.dtype).is_integer or shape.rank not in (None, 0):
            raise wrong_type(name, value, "an int or a tensor of one integer")


class Choice(Rule):
    """Rule for one of several values. The type of the value must match exactly."""

    def __init__(self, *values: Any, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._values = values

    def _check(self, name: str, value: Any) -> None:
        # ``value in self._values`` would fail, because TensorFlow's DType raises an error when compared with another
        # type.
        for allowed in self._values:
            if type(allowed) is type(value) and allowed == value:
                return
        raise ArgumentError("argument {}: {} is not one of {}".format(
            name, shown(value), ", ".join(repr(allowed) for allowed in self._values)))


class ListOf(Rule):
    """Rule for a non-empty list or tuple whose elements all satisfy another rule."""

    def __init__(self, element: Rule, *, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._element = element

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (list, tuple)):
            raise wrong_type(name, value, "list or tuple")
        if not value:
            raise ArgumentError("argument {}: length is less than 1".format(name))
        for index, element in enumerate(value):
            self._element.check("{}[{}]".format(name, index), element)


class Names(Rule):
    """Rule for a list, tuple or set of str, possibly empty. A single str is not allowed."""

    def _check(self, name: str, value: Any) -> None:
        if not isinstance(value, (list, tuple, set, frozenset)):
            raise wrong_type(name, value, "a list of names")
        for one in value:
            if not isinstance(one, str):
                raise ArgumentError("argument {}: {} is not str".format(name, shown(one)))


class AnyOf(Rule):
    """Rule for a value that satisfies one of several rules. The error message lists the errors of all rules."""

    def __init__(self, *rules: Rule, optional: bool = False) -> None:
        super().__init__(optional=optional)
        self._rules = rules

    def _check(self, name: str, value: Any) -> None:
        errors = []
        for rule in self._rules:
            try:
                rule.check(name, value)
                return
            except ArgumentError as error:
                errors.append(error.text)
        raise ArgumentError("; or ".join(errors))


def boolean(*, optional: bool = False) -> Rule:
    """Return a rule for a bool."""
    return Instance(bool, optional=optional)


def wrong_type(name: str, value: Any, expected: str) -> ArgumentError:
    """Return the error for an argument of the wrong type. The error message begins with the same words as Rec SDK's
    message.
    """
    return ArgumentError("Invalid parameter type of parameter {}: {} is {}, expected {}".format(
        name, shown(value), type(value).__name__, expected))


def _are_numbers(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_are_numbers, value))
    if isinstance(value, np.ndarray):
        return bool(np.issubdtype(value.dtype, np.number))
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _check_range(name: str, value: Union[int, float], low: float, high: float, *, open_low: bool = False,
                open_high: bool = False) -> None:
    if value != value:
        raise ArgumentError("argument {}: nan is less than {} or is bigger than {}".format(name, low, high))
    if value < low or (open_low and value == low):
        equal = " or equal to it" if open_low else ""
        raise ArgumentError("argument {}: {} is less than {}{}".format(name, value, low, equal))
    if value > high or (open_high and value == high):
        equal = " or equal to it" if open_high else ""
        raise ArgumentError("argument {}: {} is bigger than {}{}".format(name, value, high, equal))


def check_all(rules: Mapping[str, Rule], arguments: Mapping[str, Any]) -> None:
    """Check each argument that has a rule."""
    for name, rule in rules.items():
        if name in arguments:
            rule.check(name, arguments[name])


def checked(**rules: Rule) -> Callable[[Function], Function]:
    """Return a decorator that checks passed arguments against ``rules`` before each call."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        called = function.__qualname__.replace(".__init__", "")
        takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in signature.parameters.values())
        unknown = [name for name in rules if name not in signature.parameters]
        if unknown and not takes_any:
            raise TypeError("rules for parameters that do not exist: {}".format(", ".join(unknown)))

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise UnexpectedArgumentError("{}(): {}{}".format(
                    called, error, _hint(str(error), kwargs, signature.parameters))) from None
            try:
                check_all(rules, _named(signature, bound.arguments))
            except ArgumentError as error:
                raise ArgumentError("{}(): {}".format(called, error.text)) from None
            return function(*args, **kwargs)

        return call  # type: ignore

    return decorate


def did_you_mean(name: str, known: Iterable[str], form: str = "; {}", least: float = 0.6) -> str:
    """Return "did you mean NAME?" with the known name that is most similar to an unknown name.

    Return an empty string if no known name is similar.

    Args:
        form: format of the result.
        least: minimum similarity, in [0, 1].
    """
    found = difflib.get_close_matches(name, [one for one in known if isinstance(one, str)], 1, least)
    return form.format("did you mean {}?".format(found[0])) if found else ""


def _hint(error: str, given: Iterable[str], known: Iterable[str]) -> str:
    """Return a hint for the first unknown argument.

    If ``error`` does not contain the name of the argument, the hint contains it.
    """
    strangers = [name for name in given if name not in known]
    if not strangers:
        return ""
    named = "" if repr(strangers[0]) in error else "; it was given {!r}".format(strangers[0])
    return named + did_you_mean(strangers[0], set(known) - {"self"})


def ignore(function: str, known: Iterable[str], unknown: Iterable[str]) -> None:
    """Log a warning that a function ignores arguments of other versions, once for each argument.

    Args:
        function: name of the function.
        known: names of the function's parameters.
        unknown: names of passed arguments that the function does not have.

    Raises:
        UnexpectedArgumentError: an unknown argument is probably a misspelt known argument.
    """
    for name in unknown:
        meant = did_you_mean(name, known, least=0.85)
        if meant:
            raise UnexpectedArgumentError("{}(): got an unexpected keyword argument {!r}{}".format(
                function, name, meant))
    new = sorted(set(unknown) - _ignored[function])
    if new:
        _ignored[function].update(new)
        _log.warning("%s() does not have these arguments, which are ignored: %s", function, ", ".join(new))


def _named(signature: inspect.Signature, arguments: Mapping[str, Any]) -> Dict[str, Any]:
    named = dict(arguments)
    for name, parameter in signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(name, {}))
    return named
