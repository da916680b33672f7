"""Declares the bells that a table worker rings."""
from typing import Callable, NamedTuple


class Bells(NamedTuple):
    """The bells of a trainer's threads; a call rings one."""

    trainer: Callable[[], None]
    pump: Callable[[], None]
