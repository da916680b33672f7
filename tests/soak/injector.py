"""Does faults to the processes of a daemon, and counts them."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, Iterator, List, TextIO, Tuple

import psutil

from tests.soak.faults import KILL, MESSAGES, STALL, STOP, TEMPLATE, Fault, Pace
from tests.support.daemons import ROOT, DaemonProcess
from tests.support.programs.running import environment

REPLACED_WITHIN_S = 30.0  #: beyond the patience: the daemon looks once a second, and machines are busy
MESSAGES_WITHIN_S = 120.0


class Injector:
    """Carries out faults when they are due; never waits.

    Args:
        daemon: whose processes they happen to.
        script: the faults.
        patience_s: of the daemon with workers that are stopped.
        log: gets a line of JSON for each fault.
        now: seconds, monotonic, as of every call.

    Attributes:
        kills, stalls, stops, messages: how many there were; of workers that were killed, of processes that were stopped
            and went on, of processes that were stopped until they were replaced, of messages.
        skipped: faults that were due and did not happen: a worker was away or had died often enough.
        due: when the next fault is.
    """

    def __init__(self, daemon: DaemonProcess, script: Iterator[Fault], patience_s: float, log: TextIO,
                 now: float) -> None:
        self._daemon, self._script, self._patience_s = daemon, script, patience_s
        self._log = log
        self._pace = Pace()
        self._next = next(script)
        self.due = now + self._next.after_s
        self._stalled: Dict[int, threading.Timer] = {}  # threads: a daemon may answer late, and stalls end in time
        self._stopped: Dict[int, Tuple[float, str]] = {}  # pid -> by when it must be gone, name
        self._senders: List[Tuple[float, Any]] = []  # by when it must have ended, process
        self.kills = self.stalls = self.stops = self.messages = self.skipped = 0

    def processes(self) -> Dict[str, int]:
        """Pids by name: "key-0", "template"; of those that have begun."""
        status = self._daemon.status()
        found = {"{}-{}".format(worker["kind"], worker["index"]): worker["pid"] for worker in status["workers"]
                 if worker["pid"]}
        for child in _children(self._daemon.pid):
            # a worker that has just been forked has the title of the template, which is older
            if TEMPLATE not in found and child not in found.values() and "worker template" in _title(child):
                found[TEMPLATE] = child
        return found

    def look(self, now: float) -> str:
        """Do what is due. Returns what is broken, or an empty text."""
        if self.due <= now:
            self._do(self._next, now)
            self._next = next(self._script)
            self.due = now + self._next.after_s
        self._reap()
        return self._overdue(now)

    def end(self) -> None:
        """Let all go on, and send no more."""
        stalled = dict(self._stalled)
        for timer in stalled.values():
            timer.cancel()
        for pid in [*stalled, *self._stopped]:
            self._go_on(pid)
        self._stopped.clear()
        for _, sender in self._senders:
            sender.kill()
        self._reap(wait=True)

    def _do(self, fault: Fault, now: float) -> None:
        if fault.what == MESSAGES:
            kind = "stays" if fault.which < 0.5 else "goes"
            self._senders.append((now + MESSAGES_WITHIN_S, subprocess.Popen(
                [sys.executable, "-m", "tests.support.control_attack", self._daemon.run.control, str(fault.messages),
                 kind, str(fault.seed)], cwd=ROOT, env=environment(), stdout=subprocess.PIPE, start_new_session=True)))
            self._note(now, fault, {"messages": fault.messages})
            return
        chosen = self._chosen(fault)
        dies = fault.what in (KILL, STOP)
        if not chosen or dies and not self._pace.allows(_workers(chosen), now):
            self.skipped += 1
            self._note(now, fault, {"skipped": sorted(chosen)})
            return
        for name, pid in chosen.items():
            if not self._signal(pid, signal.SIGKILL if fault.what == KILL else signal.SIGSTOP):
                continue
            if fault.what == KILL:
                self.kills += 1
            elif fault.what == STALL:
                self.stalls += 1
                self._stalled[pid] = threading.Timer(fault.for_s, self._go_on, [pid])
                self._stalled[pid].start()
            else:
                self.stops += 1
                self._stopped[pid] = (now + self._patience_s + REPLACED_WITHIN_S, name)
        if dies:
            self._pace.note(_workers(chosen), now + (self._patience_s if fault.what == STOP else 0.0))
        self._note(now, fault, {"pids": chosen, "for_s": round(fault.for_s, 3) if fault.what == STALL else None})

    def _chosen(self, fault: Fault) -> Dict[str, int]:
        """One process of each role, by its name, of those that run; one that is stalled may be killed."""
        there = self.processes()
        spared = {*self._stopped, *(self._stalled if fault.what != KILL else ())}
        chosen = {}
        for role in fault.roles:
            names = sorted(name for name, pid in there.items()
                           if name.partition("-")[0] == role and pid not in spared)
            if names:
                name = names[int(fault.which * len(names))]
                chosen[name] = there[name]
        return chosen

    def _go_on(self, pid: int) -> None:
        self._signal(pid, signal.SIGCONT)
        self._stalled.pop(pid, None)  # from now on it may be stopped again

    def _signal(self, pid: int, number: signal.Signals) -> bool:
        """Whether it reached a process of the daemon."""
        if pid not in _children(self._daemon.pid):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def _reap(self, *, wait: bool = False) -> None:
        for one in list(self._senders):
            if wait or one[1].poll() is not None:
                said = one[1].communicate()[0]
                self.messages += int(said or 0)
                self._senders.remove(one)

    def _overdue(self, now: float) -> str:
        there = _children(self._daemon.pid) if self._stopped else []
        for pid, (by, name) in list(self._stopped.items()):
            if pid not in there:
                del self._stopped[pid]
            elif now > by:
                return "{} (pid {}) was stopped and not replaced within {:g} s".format(
                    name, pid, self._patience_s + REPLACED_WITHIN_S)
        for by, _ in self._senders:
            if now > by:
                return "messages were not taken within {:g} s".format(MESSAGES_WITHIN_S)
        return ""

    def _note(self, now: float, fault: Fault, more: Dict[str, Any]) -> None:
        self._log.write(json.dumps({"at": round(now, 3), "what": fault.what, "roles": fault.roles, **more}) + "\n")
        self._log.flush()


def _workers(chosen: Dict[str, int]) -> List[str]:
    """The template may end as often as it likes."""
    return [name for name in chosen if name != TEMPLATE]


def _children(pid: int) -> List[int]:
    """The oldest first."""
    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children()  # has asked for the time of each, and keeps it
        return [child.pid for child in sorted(children, key=psutil.Process.create_time)]
    return []


def _title(pid: int) -> str:
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


