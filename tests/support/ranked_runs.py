"""Runs ``tests.support.programs.ranked`` on several ranks, or on one, and reads what they told."""
import contextlib
import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from tests.support import ranked_daemons, several_ranks
from tests.support.ascend_programs import PROGRAMS
from tests.support.forked_calls import ForkedCall, running_server
from tests.support.programs.running import RING_BYTES

ENDS_WITHIN_S = 250.0


class Ran(NamedTuple):
    """What came of a run.

    Attributes:
        code: exit code of the launcher, or of the only rank.
        said: what it wrote.
        told: of each rank, as the program wrote it; {} of one that wrote nothing.
        rows: by feature, float32[batches, lines, width, dim] of the evaluation of all keys; {} without one.
        seconds: until all ranks had ended.
    """

    code: int
    said: str
    told: List[Dict[str, Any]]
    rows: Dict[str, np.ndarray]
    seconds: float

    @property
    def losses(self) -> List[float]:
        """Of the first rank; all ranks have the same."""
        for told in self.told:
            assert told.get("losses") == self.told[0].get("losses"), self.said
        return self.told[0]["losses"]

    def require_good_end(self) -> "Ran":
        """Itself, if all ranks came to their end without an error."""
        for told in self.told:
            assert told.get("ended") and "error" not in told, "{}\n{}".format(told, self.said)
        assert self.code == 0, self.said
        return self


_HOROVODRUN = several_ranks.horovodrun(1, "")[:5]  #: the interpreter and what it runs


def train(folder: Any, ranks: int, case: Dict[str, Any], ends_within_s: float = ENDS_WITHIN_S, launcher: str = "gloo",
          **settings: Any) -> Ran:
    """Train a case to its end, good or bad.

    Args:
        folder: a new one.
        ranks: how many processes; 1: without a launcher.
        case: fields of ``ranked.Case``.
        ends_within_s: else ``subprocess.TimeoutExpired``.
        launcher: of several ranks, as ``several_ranks.by`` has it.
        settings: of ascpipe, as ``ring_frames=2``; in capitals, variables of the environment. Without settings, daemons
            may be shared with other runs.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as lent:
        settings = settings or lent.enter_context(ranked_daemons.lent(ranks))
        code, said = _ended(*_prepared(folder, ranks, case, settings, launcher), ends_within_s)
    return Ran(code, said, *_told(str(folder), ranks), time.monotonic() - started)


def run_script(script: str, folder: Any, ranks: int, *arguments: Any, ends_within_s: float = ENDS_WITHIN_S,
               **settings: Any) -> Tuple[int, str]:
    """Run ``script FOLDER ARGUMENTS`` of the programs to its end, as ``train`` does; exit code, and what it said."""
    return _ended(*_command(os.path.join(PROGRAMS, script), folder, ranks, arguments, settings, "gloo"),
                  ends_within_s)


def ended(command: Sequence[Any], **variables: str) -> Tuple[int, str, str]:
    """Exit code, standard output and standard error of a program on one rank, or of a launcher."""
    return _outcome([str(word) for word in command], several_ranks.environment(**variables), ENDS_WITHIN_S)


def _ended(command: List[str], variables: Dict[str, str], ends_within_s: float) -> Tuple[int, str]:
    code, out, err = _outcome(command, variables, ends_within_s)
    return code, out + err


def _outcome(command: List[str], variables: Dict[str, str], ends_within_s: float) -> Tuple[int, str, str]:
    called = _forked(command, variables)
    if called is not None:
        return called.wait(ends_within_s), called.out, called.err
    run = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, cwd="/", text=True,
                         timeout=ends_within_s, check=False)
    return run.returncode, run.stdout, run.stderr


def _forked(command: List[str], variables: Dict[str, str]) -> Optional[ForkedCall]:
    """Fork ``horovodrun`` or a program on one rank, where programs are forked; other launchers are executed."""
    server = running_server()
    if server is None or not (command[:5] == _HOROVODRUN or command[1].endswith(".py")):
        return None
    if command[:5] == _HOROVODRUN:
        return server.call("horovodrun", command[5:], "/", variables)
    return server.call("python", command[1:], "/", variables)


def train_by(launch: Callable[[str, str], Tuple[int, str, str]], folder: Any, ranks: int, case: Dict[str, Any]) -> Ran:
    """``train`` where ``launch`` starts the ranks: of a program and its argument it gives what ``ended`` does."""
    command, _ = _prepared(folder, ranks, case, {})
    started = time.monotonic()
    code, out, err = launch(*command[-2:])
    return Ran(code, out + err, *_told(str(folder), ranks), time.monotonic() - started)


def begin(folder: Any, ranks: int, case: Dict[str, Any], launcher: str = "gloo",
          **settings: Any) -> "Union[ForkedCall, subprocess.Popen[str]]":
    """The launcher of ``train``, which runs; what it says is dropped."""
    command, variables = _prepared(folder, ranks, case, settings, launcher)
    return _forked(command, variables) or subprocess.Popen(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        text=True)


def pid_of(folder: Any, rank: int) -> int:
    """Of a rank that has begun."""
    with open(os.path.join(str(folder), "{}.pid".format(rank))) as file:
        return int(file.read())


def _prepared(folder: Any, ranks: int, case: Dict[str, Any], settings: Dict[str, Any],
              launcher: str = "gloo") -> Tuple[List[str], Dict[str, str]]:
    """Command and environment of a run in a new folder."""
    os.makedirs(str(folder))
    with open(os.path.join(str(folder), "case.json"), "w") as file:
        json.dump(case, file)
    return _command(os.path.join(PROGRAMS, "ranked.py"), folder, ranks, (), settings, launcher)


def _command(script: str, folder: Any, ranks: int, arguments: Sequence[Any], settings: Dict[str, Any],
             launcher: str) -> Tuple[List[str], Dict[str, str]]:
    command = [sys.executable, script, str(folder), *arguments] if ranks == 1 else \
        several_ranks.by(launcher, ranks, script, folder, *arguments)
    given = {"ring_bytes": RING_BYTES, **settings}
    variables = several_ranks.environment(
        HOROVOD_FUSION_THRESHOLD="0",  # else dense sums depend on timing from three ranks on
        HOROVOD_CYCLE_TIME="5",  # ranks ask each other every 5 ms instead of every 1 ms, which takes processor time
        **{name if name.isupper() else "ASCPIPE_" + name.upper(): str(value) for name, value in given.items()})
    return [str(word) for word in command], variables


def _told(folder: str, ranks: int) -> Tuple[List[Dict[str, Any]], Dict[str, np.ndarray]]:
    told, rows = [], []
    for rank in range(ranks):
        path = os.path.join(folder, str(rank))
        told.append({})
        if os.path.exists(path + ".json"):
            with open(path + ".json") as file:
                told[-1] = json.load(file)
        if os.path.exists(path + ".npz"):
            with np.load(path + ".npz") as arrays:
                rows.append({name: arrays[name] for name in arrays.files})
    together = {name: np.concatenate([one[name] for one in rows], axis=1) for name in rows[0]} \
        if len(rows) == ranks else {}
    return told, together
