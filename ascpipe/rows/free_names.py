"""Functions that choose unused names for new checkpoints."""
import os
import re
from typing import NamedTuple, Optional, Tuple

from ascpipe.checkpoint.paths import Place, place_of
from ascpipe.errors import ArgumentError
from ascpipe.errors.base import shown

_MOST_NAMES = 1000


class Name(NamedTuple):
    """Name of a new checkpoint.

    Attributes:
        directory: directory of the checkpoint.
        base: name without the step.
        step: training step, or None.
    """

    directory: str
    base: str
    step: Optional[int]


def free_name(prefix: str) -> Name:
    """Parse ``prefix``, the name ``dir/base-step`` of a new checkpoint, and check that no checkpoint has this name.

    Raises:
        ArgumentError: the name is in use.
        CheckpointPathError: the path is not allowed.
    """
    place = place_of(prefix)
    if _is_taken(place):
        raise ArgumentError("to={} is the name of an existing checkpoint. Nothing was read or written. Pass "
                            "another name".format(shown(prefix)))
    return Name(place.directory, *base_and_step(place.stem))


def new_name(source: str, to: Optional[str], word: str) -> Name:
    """Return the name of a new checkpoint that is made from another checkpoint.

    Args:
        source: ``dir/base-step`` of the other checkpoint.
        to: ``dir/base-step`` of the new checkpoint, or None for ``dir/base-word-step``.
        word: the word in the default name.

    Raises:
        ArgumentError: the name ``to``, or each default name, is in use.
        CheckpointPathError: a path is not allowed.
    """
    if to is not None:
        return free_name(to)
    place = place_of(source)
    stem, step = base_and_step(place.stem)
    base = re.sub(r"-{}[0-9]*\Z".format(word), "", stem)
    for number in range(1, _MOST_NAMES):
        name = "{}-{}{}".format(base, word, "" if number == 1 else number)
        stem = name if step is None else "{}-{}".format(name, step)
        if not _is_taken(place_of(os.path.join(place.directory, stem))):
            return Name(place.directory, name, step)
    raise ArgumentError("{} has {} {} checkpoints. Nothing was read or written. Pass a name with to=".format(
        place.directory, _MOST_NAMES - 1, word))


def _is_taken(place: Place) -> bool:
    """Return whether a checkpoint of ascpipe or of TensorFlow already has the name ``place``."""
    return any(os.path.lexists(os.path.join(place.directory, name)) for name in (*place.names, place.stem + ".index"))


def base_and_step(stem: str) -> Tuple[str, Optional[int]]:
    """Split ``base-step``. The returned step is None if the name contains no step."""
    found = re.match(r"(.*)-(0|[1-9][0-9]{0,17})\Z", stem, re.DOTALL)
    return (stem, None) if found is None else (found.group(1), int(found.group(2)))
