"""What the status of a rank's daemon tells of the other ranks, while they train."""
import glob
import json
import os
import signal

import pytest

from ascpipe import names
from tests.support import ranked_runs
from tests.support.commands import ascpipe
from tests.support.daemons import DaemonProcess
from tests.support.several_ranks import needs_horovod
from tests.support.waiting import wait_until

pytestmark = [needs_horovod, pytest.mark.timeout_s(150)]

CASE = {"tables": {"user": {}, "item": {"dim": 4}}, "steps": 100000,
        "features": {"a": {"table": "user"}, "c": {"table": "item", "width": 1}}}


def status(pid, *options):
    """What is printed for the private daemon of a trainer; None: there is no such daemon yet."""
    found = glob.glob(os.path.join(names.base_dir(), "private-{}-*".format(pid)))
    if not found:
        return None
    asked = ascpipe("status", "--name", os.path.basename(found[0]), *options)
    return asked.stdout if asked.returncode == 0 else None


def exchanges(pid):
    told = status(pid, "--json")
    return None if told is None else json.loads(told)["exchanges"]


def test_the_status_tells_what_a_rank_exchanges_and_for_which_rank_it_waits(launcher, tmp_path):
    launched = ranked_runs.begin(tmp_path / "run", 2, CASE, launcher)
    try:
        pids = [wait_until(lambda rank=rank: os.path.exists(str(tmp_path / "run" / "{}.pid".format(rank))) and
                           ranked_runs.pid_of(tmp_path / "run", rank), 60.0) for rank in range(2)]
        wait_until(lambda: all((exchanges(pid) or {"exchanges": 0})["exchanges"] > 20 for pid in pids), 60.0)
        told = [exchanges(pid) for pid in pids]
        assert [(one["rank"], one["ranks"]) for one in told] == [(0, 2), (1, 2)]
        assert all(one["bytes_sent"] > 0 and one["bytes_received"] > 0 and one["time_s"] > 0 for one in told)

        os.kill(pids[1], signal.SIGSTOP)
        waits = wait_until(lambda: (exchanges(pids[0])["since_s"] or 0) > 0.5 and exchanges(pids[0]))
        assert waits["does"] in ("takes", "trains", "sends gradients of") and waits["ticket"] > 0
        text = status(pids[0])
        assert "rank 0 of 2: " in text and "has waited for other ranks for" in text
        os.kill(pids[1], signal.SIGCONT)
        wait_until(lambda: exchanges(pids[0])["exchanges"] > waits["exchanges"] + 2)
    finally:
        launched.terminate()
        launched.wait(60.0)


def test_each_rank_of_a_machine_is_served_by_the_daemon_of_its_number(tmp_path):
    daemons = [DaemonProcess("mine-{}".format(rank)) for rank in range(2)]
    try:
        case = {**CASE, "steps": 5}
        run = ranked_runs.train(tmp_path / "run", 2, case, ASCPIPE_NAME="mine-{local_rank}").require_good_end()
        assert [told["daemon"] for told in run.told] == ["mine-0", "mine-1"]
        assert [daemon.status()["state"] for daemon in daemons] == ["idle", "idle"]
    finally:
        for daemon in daemons:
            daemon.end()
