"""Machines that run the ranks of a program: given on the command line, or printed by a script before each start."""
import re
import socket
import subprocess
import tempfile
import time
from typing import Callable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import click

from ascpipe.cli.reachable import exit_code, own_addresses, text_of, unreachable
from ascpipe.errors import RanksError
from ascpipe.errors.base import shown
from ascpipe.logs import counted
from ascpipe.ranks import check_own_name

_PLACE = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?::([1-9][0-9]{0,3}))?")
_RANKS = re.compile(r"([1-9][0-9]{0,3})(?::([1-9][0-9]{0,3}))?")
_MOST_RANKS = 4095
_SCRIPT_S = 60.0  # maximum duration of a script
_WAIT_S = 600.0  # maximum seconds for which a restart waits for enough hosts
_POLL_S = 5.0


class Place(NamedTuple):
    """Host, and the number of ranks that the host can run."""

    host: str
    ranks: int


class RankCount(NamedTuple):
    """Minimum and maximum number of ranks of a run."""

    least: int
    most: int


class RankCountType(click.ParamType):
    """Parameter type for a number of ranks, ``N`` or ``MIN:MAX``."""

    name = "N or MIN:MAX"

    def convert(self, value: object, param: Optional[click.Parameter], ctx: Optional[click.Context]) -> RankCount:
        """Parse an argument, and return the number of ranks."""
        match = _RANKS.fullmatch(str(value))
        count = RankCount(0, 0)
        if match is not None:
            count = RankCount(int(match.group(1)), int(match.group(2) or match.group(1)))
        if not 1 <= count.least <= count.most <= _MOST_RANKS:
            self.fail("{!r} is not a number of ranks, N or MIN:MAX, from 1 to {}".format(value, _MOST_RANKS),
                      param, ctx)
        return count


class GivenHosts:
    """Hosts of the option ``--hosts``.

    Args:
        text: ``HOST:N,...``, or None to run all ranks on this machine.

    Raises:
        click.BadParameter: the text does not have this form.
    """

    def __init__(self, text: Optional[str]) -> None:
        self._text = text
        try:
            self._places = None if text is None else _parsed(text.split(","))
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--hosts") from error

    def chosen(self, count: RankCount) -> List[Place]:
        """Return the hosts to use, with at most ``count.most`` ranks.

        Raises:
            click.BadParameter: the hosts can run fewer than ``count.least`` ranks.
        """
        if self._places is None:
            return [Place("localhost", count.most)]
        if _total(self._places) < count.least:
            raise click.BadParameter("{} can run {} of {} ranks".format(
                self._text, _total(self._places), count.least), param_hint="--hosts")
        return filled(self._places, count.most)


class HostScript:
    """Program that prints the hosts that are available now, one ``HOST:N`` per line.

    The program runs before each start of the ranks. Hosts that do not answer by ssh are not used. The interface is the
    same as for Horovod's ``--host-discovery-script``.

    Args:
        path: path of the executable program. It gets no arguments.
        say: function that prints a message for the user.
        wait: function that sleeps for a number of seconds.
        clock: function that returns the time in seconds.
        find_unreachable: function that returns a dict of the given hosts that do not answer: host -> reason.
    """

    def __init__(self, path: str, say: Callable[[str], None], wait: Callable[[float], None] = time.sleep,
                 clock: Callable[[], float] = time.monotonic,
                 find_unreachable: Callable[[Sequence[str]], Mapping[str, str]] = unreachable) -> None:
        self._path = path
        self._say = say
        self._wait = wait
        self._clock = clock
        self._find_unreachable = find_unreachable
        self._dropped: Mapping[str, str] = {}

    def chosen(self, count: RankCount) -> List[Place]:
        """Run the script repeatedly until it prints enough hosts that answer. Give up after 600 s. Return the hosts to
        use.

        Raises:
            RanksError: for 600 s, each run of the script failed or printed too few hosts that answer.
        """
        end = self._clock() + _WAIT_S
        lack = ""
        while True:
            places, found = self._run(count.least)
            if not found:
                return filled(places, count.most)
            if self._clock() >= end:
                raise RanksError("{} for {:.0f} s, so no ranks were started. Correct the script, or reduce the minimum "
                                 "of --ranks".format(found, _WAIT_S))
            if found != lack:
                self._say("{}; trying again for {:.0f} s".format(found, max(end - self._clock(), 0)))
            lack = found
            self._wait(_POLL_S)

    def _run(self, least: int) -> Tuple[List[Place], str]:
        """Run the script once. Return the hosts, and an error message that is empty after success."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # a child may keep pipes open
            try:
                code = exit_code([self._path], out, err, _SCRIPT_S)
            except subprocess.TimeoutExpired:
                return [], "--hosts-script {} did not exit within {:.0f} s".format(self._path, _SCRIPT_S)
            except OSError as error:
                return [], "--hosts-script {} cannot be run: {}".format(self._path, error.strerror)
            text = text_of(out)
            words = text_of(err)
        if code:
            return [], "--hosts-script {} failed with exit code {}: {}".format(self._path, code, shown(words.strip()))
        try:
            places = _parsed(text.split())
        except ValueError as error:
            return [], "--hosts-script {} printed a wrong line: {}".format(self._path, error)
        if _total(places) < least:
            return [], "--hosts-script {} names hosts for {}, but at least {} are needed".format(
                self._path, counted(_total(places), "rank"), least)
        answering = self._answering(places)
        if _total(answering) < least:
            return [], "hosts that answer can run {}, but at least {} are needed".format(
                counted(_total(answering), "rank"), least)
        return answering, ""

    def _answering(self, places: Sequence[Place]) -> List[Place]:
        """Return the hosts that answer. Print the hosts that do not answer, unless they are the same as before."""
        dropped = self._find_unreachable([place.host for place in places])
        if dropped and set(dropped) != set(self._dropped):
            self._say("no ranks start on hosts that do not answer: {}".format(
                "; ".join("{} ({})".format(*one) for one in dropped.items())))
        self._dropped = dropped
        return [place for place in places if place.host not in dropped]


def filled(places: Sequence[Place], count: int) -> List[Place]:
    """Limit the total number of ranks on the hosts to ``count``. Otherwise horovodrun would ignore ``-np``."""
    taken = []
    for place in places:
        if count > 0:
            taken.append(Place(place.host, min(place.ranks, count)))
            count -= place.ranks
    return taken


def check_addresses(names: Sequence[str]) -> bool:
    """Check the addresses of hosts. Return whether at least one host is not this machine.

    Raises:
        RanksError: a host or this machine's own name has no address that other machines can reach.
    """
    here = set(own_addresses())
    addresses = {}
    for name in names:
        try:
            addresses[name] = socket.gethostbyname(name)
        except OSError as error:
            raise RanksError("host {} has no address: {}".format(name, error)) from error
    if set(addresses.values()) <= here | {"127.0.0.1"}:
        return False
    for name, address in addresses.items():
        if address.startswith("127."):
            raise RanksError("host {} resolves to {}, which other machines cannot reach. Use the name that they "
                             "know".format(name, address))
    check_own_name()
    return True


def _parsed(parts: Sequence[str]) -> List[Place]:
    places = []
    for part in parts:
        match = _PLACE.fullmatch(part)
        if match is None:
            raise ValueError("{!r} is not HOST or HOST:N".format(part))
        places.append(Place(match.group(1), int(match.group(2) or 1)))
    return places


def _total(places: Sequence[Place]) -> int:
    return sum(place.ranks for place in places)
