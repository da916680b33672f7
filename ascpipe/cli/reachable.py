"""Check which hosts answer by ssh before ranks start. Horovod's launcher fails if one of its hosts does not answer."""
import concurrent.futures
import contextlib
import os
import signal
import socket
import subprocess
import tempfile
from typing import IO, Dict, List, Mapping, Sequence

from ascpipe.errors.base import shown

ANSWER_S = 10.0  #: maximum time for the answer of a host
_MOST_AT_ONCE = 64
_MOST_OUTPUT = 1 << 20  # bytes read of a command's output
_AGENT = "OMPI_MCA_plm_rsh_agent"
_KUBEXEC = "/etc/mpi/kubexec.sh"  # Horovod uses this remote shell instead of ssh if the variable above contains it
_SSH = ("ssh", "-o", "BatchMode=yes", "-o", "PasswordAuthentication=no", "-o", "StrictHostKeyChecking=no", "-o",
        "ConnectTimeout={:.0f}".format(ANSWER_S))


def unreachable(hosts: Sequence[str], limit_s: float = ANSWER_S) -> Dict[str, str]:
    """Run ``true`` by ssh on each host that is not this machine, on up to 64 hosts at the same time.

    Args:
        limit_s: maximum time for the answer of a host, in seconds.

    Returns:
        A dict with the hosts that do not answer, in the given order: host -> reason.
    """
    if not hosts:
        return {}
    with concurrent.futures.ThreadPoolExecutor(min(len(hosts), _MOST_AT_ONCE)) as threads:
        reasons = threads.map(lambda host: _reason(host, limit_s), hosts)
        return {host: reason for host, reason in zip(hosts, reasons) if reason}


def own_addresses() -> List[str]:
    """Return the addresses of this machine's network interfaces."""
    import psutil

    return [address.address for addresses in psutil.net_if_addrs().values() for address in addresses]


def _reason(host: str, limit_s: float) -> str:
    """Return why a host does not answer, or an empty string."""
    try:
        address = socket.gethostbyname(host)
    except OSError as error:
        return "no address: {}".format(error)
    if address.startswith("127.") or address in own_addresses():
        return ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # a child may keep pipes open
        try:
            code = exit_code([*remote_shell(os.environ), host, "true"], out, err, limit_s)
        except subprocess.TimeoutExpired:
            return "no answer by ssh within {:g} s".format(limit_s)
        except OSError as error:
            return "ssh cannot be run: {}".format(error.strerror)
        lines = [line for line in text_of(err).splitlines() if line.strip()]
    return "ssh exited with code {}{}".format(code, ": " + shown(lines[-1].strip()) if lines else "") if code else ""


def remote_shell(environment: Mapping[str, str]) -> Sequence[str]:
    """Return the remote shell that Horovod's launcher uses, with its options and without the host."""
    return [_KUBEXEC] if environment.get(_AGENT) == _KUBEXEC else _SSH


def exit_code(command: Sequence[str], out: IO[bytes], err: IO[bytes], limit_s: float) -> int:
    """Run a command, and kill the command's process group at the end. Return the exit code.

    Raises:
        subprocess.TimeoutExpired: the command did not exit within ``limit_s`` seconds.
    """
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
    try:
        return process.wait(limit_s)
    finally:
        with contextlib.suppress(ProcessLookupError):  # no process is left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def text_of(file: IO[bytes]) -> str:
    """Return the start of a file, at most 1 MiB, as text."""
    file.seek(0)
    return file.read(_MOST_OUTPUT).decode("utf-8", "replace")
