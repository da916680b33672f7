"""Which hosts answer by ssh before ranks start."""
import os
import socket
import time

import pytest

from ascpipe.cli import reachable

SSH = """#!/bin/sh
echo "$*" >> {log}
for word; do
  case $word in
    refuses) echo "ssh: connect to host refuses port 2222: No route to host" >&2; exit 255 ;;
    hangs) sleep 60 & wait ;;
  esac
done
"""


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """Puts an ``ssh`` on PATH. Returns a function that returns its calls."""
    log = tmp_path / "log"
    (tmp_path / "ssh").write_text(SSH.format(log=log))
    (tmp_path / "ssh").chmod(0o755)
    known = {"localhost": "127.0.0.1", "here": reachable.own_addresses()[0]}

    def find(name):
        if name == "nowhere":
            raise socket.gaierror("Name or service not known")
        return known.get(name, "10.255.0.9")

    monkeypatch.setenv("PATH", "{}:{}".format(tmp_path, os.environ["PATH"]))
    monkeypatch.delenv("OMPI_MCA_plm_rsh_agent", raising=False)
    monkeypatch.setattr(socket, "gethostbyname", find)
    return lambda: log.read_text().splitlines() if log.exists() else []


def test_hosts_that_refuse_or_have_no_address_are_named_with_the_reason(ssh):
    assert reachable.unreachable(["a", "refuses", "nowhere"]) == {
        "refuses": "ssh exited with code 255: 'ssh: connect to host refuses port 2222: No route to host'",
        "nowhere": "no address: Name or service not known"}
    assert len(ssh()) == 2 and all("BatchMode=yes" in line and line.endswith(" true") for line in ssh())


def test_this_machine_is_not_asked(ssh):
    assert reachable.unreachable(["localhost", "here"]) == {} == reachable.unreachable([])
    assert ssh() == []


def test_hosts_that_hang_are_asked_at_the_same_time_and_killed(ssh):
    begin = time.monotonic()
    assert reachable.unreachable(["hangs", "a", "hangs"], 1.0) == {"hangs": "no answer by ssh within 1 s"}
    assert time.monotonic() - begin < 20


def test_the_remote_shell_is_the_one_of_horovod_s_launcher():
    assert reachable.remote_shell({"OMPI_MCA_plm_rsh_agent": "/etc/mpi/kubexec.sh"}) == ["/etc/mpi/kubexec.sh"]
    assert reachable.remote_shell({"OMPI_MCA_plm_rsh_agent": "ssh"})[0] == "ssh"
