"""A control group (version 1) whose memory has a limit, and a process that uses it up; needs root."""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest

from tests.support.waiting import wait_until

ROOT = Path("/sys/fs/cgroup/memory")
_EATER = """
import re, sys
sys.stdout.write("there\\n")
sys.stdout.flush()
wanted, path, eaten = int(sys.stdin.readline()), sys.argv[1], []
while int(re.search(r"oom_kill (\\d+)", open(path).read()).group(1)) < wanted:
    eaten.append(b"x" * (1 << 20))
sys.stdout.write("done\\n")
"""


class MemoryGroup:
    """The group; ``kills`` counts processes that the kernel has ended there as memory ran out."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def kills(self) -> int:
        lines = (self.path / "memory.oom_control").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def add(self, *pids: int) -> None:
        for pid in pids:
            (self.path / "cgroup.procs").write_text(str(pid))

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Keep this process in the group for the block, so that the processes that it starts are in the group from
        their first instruction.
        """
        before = re.search(r"^\d+:memory:(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE).group(1)
        self.add(os.getpid())
        try:
            yield
        finally:
            (ROOT / before.lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))

    def add_victim(self, pid: int) -> None:
        """Add a process, the first that the kernel will end."""
        self.add(pid)
        Path("/proc/{}/oom_score_adj".format(pid)).write_text("1000")

    def limit(self, spare_bytes: int) -> None:
        """Leave so much to what is used already."""
        used = int((self.path / "memory.usage_in_bytes").read_text())
        (self.path / "memory.limit_in_bytes").write_text(str(used + spare_bytes))

    def use_up(self, kills: int, timeout_s: float = 60.0) -> None:
        """Take memory until the kernel has ended that many processes in all."""
        eater = subprocess.Popen([sys.executable, "-c", _EATER, str(self.path / "memory.oom_control")],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            eater.stdout.readline()
            self.add(eater.pid)
            eater.stdin.write(b"%d\n" % kills)
            eater.stdin.flush()
            wait_until(lambda: eater.poll() is not None, timeout_s, "{} processes to be ended".format(kills))
        finally:
            eater.kill()
            eater.communicate()


@contextlib.contextmanager
def memory_group() -> Iterator[Any]:
    """A new group. The test is skipped where there can be none."""
    try:
        path = Path(tempfile.mkdtemp(prefix="ascpipe-test-", dir=str(ROOT)))
    except OSError as error:
        pytest.skip("no control group of version 1 with a memory limit can be made: {}".format(error))
    try:
        if "oom_kill " not in (path / "memory.oom_control").read_text():
            pytest.skip("the kernel does not count what it ends as memory runs out")
        yield MemoryGroup(path)
    finally:
        wait_until(lambda: _removed(path), what="the control group to be empty")


def _removed(path: Path) -> bool:
    with contextlib.suppress(OSError):
        path.rmdir()
    return not path.exists()
