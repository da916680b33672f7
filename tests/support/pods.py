"""Pods of Kubernetes, imitated by namespaces: containers of a manifest run with its command, user, volumes and probes.

A container gets a root directory of its own: /usr of this machine, an /etc with the user of the image, the tree with
its environment instead of /opt/ascpipe, and the volumes of the manifest. It has namespaces for mounts, IPC, host name,
processes and network, the user and group of the manifest, and no capabilities. Images, limits of memory and processors,
and schedulers are not imitated.
"""
import contextlib
import functools
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import pytest

from ascpipe.daemon import kernel_cache
from tests.support import tree
from tests.support.waiting import wait_until

_TOOLS = ("ip", "unshare", "nsenter", "setpriv", "chroot", "mount")
_BASE_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_SUBNET = "10.77.78."
_SHM = "64m"  # of a container without a volume for /dev/shm
_SIZES = {"Ki": "k", "Mi": "m", "Gi": "g"}


@functools.lru_cache(maxsize=None)
def lacking() -> str:
    """Why pods cannot be imitated here; empty if they can."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if os.geteuid() != 0 or missing:
        return "{} and root are needed".format(", ".join(missing or _TOOLS))
    tried = subprocess.run(["unshare", "-muipn", "--fork", "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
                           stderr=subprocess.DEVNULL)
    return "" if tried.returncode == 0 else "namespaces cannot be made here"


needs_namespaces = pytest.mark.skipif(bool(lacking()), reason=lacking())


def image_environment() -> Dict[str, str]:
    """The variables of the image, from its Dockerfile."""
    line, = re.findall(r"^ENV (PATH=.*)$", (tree.ROOT / "Dockerfile").read_text(), re.MULTILINE)
    found = dict(word.split("=", 1) for word in line.split())
    return {**found, "PATH": found["PATH"].replace("$PATH", _BASE_PATH), "HOME": "/home/ascpipe"}


class Network:
    """Network namespaces that a bridge connects, and the names of their addresses."""

    def __init__(self):
        self._prefix = "pod" + secrets.token_hex(3)
        self._switch = self._prefix + "s"
        self.addresses: Dict[str, str] = {}
        self._spaces: List[str] = []
        self._add(self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "addr", "add", _SUBNET + "1/24", "dev", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")

    def _add(self, space):
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("-n", space, "link", "set", "lo", "up")

    def join(self, name):
        """Return a new namespace with an address for the host ``name``."""
        number = len(self.addresses) + 2
        space = "{}{}".format(self._prefix, number)
        self._add(space)
        self.addresses[name] = _SUBNET + str(number)
        _ip("-n", space, "link", "add", "eth0", "type", "veth", "peer", "name", "pod{}".format(number), "netns",
            self._switch)
        _ip("-n", space, "addr", "add", self.addresses[name] + "/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        _ip("-n", self._switch, "link", "set", "pod{}".format(number), "master", "bridge", "up")
        return space

    def accepts(self, name, port):
        """Whether a TCP connection to a pod is accepted, from outside of the pods, as by kubelet."""
        code = "import socket, sys; socket.create_connection(({!r}, {}), 2)".format(self.addresses[name], port)
        return subprocess.run(["ip", "netns", "exec", self._switch, sys.executable, "-c", code],
                              stderr=subprocess.DEVNULL).returncode == 0

    def close(self):
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], stderr=subprocess.DEVNULL)


class Image(NamedTuple):
    """What an image adds to the first image: files by path below /etc, and commands of its user."""

    etc: Mapping[str, str] = {}
    commands: Sequence[Sequence[str]] = ()


_NO_MORE = Image()

class Files(NamedTuple):
    """Content of a Secret or ConfigMap: texts by name."""

    texts: Mapping[str, str]


class Pod:
    """A running container of a pod. Pods of our manifests have one container each.

    Args:
        name: host name.
        spec: the pod's ``spec``, from a manifest.
        folder: a new folder on this machine for the parts of the pod's root directory.
        volumes: by name of a volume: folder on this machine of a claim, or ``Files``.
        network: its network, or None for a pod that is alone.
        image: further parts of the image.
    """

    def __init__(self, name: str, spec: Mapping[str, Any], folder: Any, volumes: Mapping[str, Any], *,
                 network: Optional[Network] = None, image: Image = _NO_MORE) -> None:
        self.name, self.spec = name, spec
        self.container, = spec["containers"]
        self._folder = str(folder)
        self._volumes = {volume["name"]: volume for volume in spec["volumes"]}
        self._given = volumes
        self._network = network
        self._image = image
        self._hosts = ""
        os.makedirs(self._folder)
        self.output = os.path.join(self._folder, "output")
        self._space = ["ip", "netns", "exec", network.join(name)] if network is not None else []

    # ---- life

    def start(self, hosts: str = "") -> None:
        """Start the container. ``hosts`` are further lines of /etc/hosts."""
        self._hosts = hosts
        script = os.path.join(self._folder, "start.sh")
        with open(script, "w") as file:
            file.write("\n".join(["set -eu", *self._root(), *self._command()]) + "\n")
        with open(self.output, "w") as output:
            self._process = subprocess.Popen(
                [*self._space, "unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork",
                 "--kill-child", *([] if self._space else ["--net"]), "sh", script],
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env={"PATH": _BASE_PATH})
        self._init = wait_until(self._first_process, timeout_s=20)

    def _first_process(self):
        """The process with PID 1 of the container, once it has its root directory."""
        with open("/proc/{0}/task/{0}/children".format(self._process.pid)) as file:
            found = file.read().split()
        if self._process.poll() is not None:
            raise AssertionError(self.said())
        return int(found[0]) if found and os.path.exists(os.path.join(self._folder, "is_set_up")) else None

    def run(self, command, timeout_s=30.0):
        """Run a command in the container, as an exec probe does. Return the exit code and the output."""
        done = subprocess.run(
            ["nsenter", "--target", str(self._init), "--mount", "--uts", "--ipc", "--net", "--pid", "--root",
             "env", "-i", "--chdir=" + self._directory(), *self._variables(), *self._as_user(), *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s)
        return done.returncode, done.stdout

    def probe(self, kind):
        """Whether the probe of this kind (``livenessProbe``) succeeds now, within its time."""
        probe = self.container[kind]
        if "exec" in probe:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self.run(probe["exec"]["command"], probe.get("timeoutSeconds", 1))[0] == 0
            return False
        port = probe["tcpSocket"]["port"]
        ports = {one["name"]: one["containerPort"] for one in self.container.get("ports", [])}
        return self._network.accepts(self.name, ports.get(port, port))

    def until(self, condition, timeout_s):
        """Wait for a condition. Fail at once if the container's command has ended."""
        def look():
            return condition() or self._process.poll() is not None

        wait_until(look, timeout_s=timeout_s, what="what the test waits for")
        assert condition(), "ended with {}: {}".format(self._process.poll(), self.said())

    def said(self):
        with open(self.output, errors="replace") as file:
            return file.read()

    def wait(self, timeout_s):
        """Exit code of the container's command."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError("{} runs after {:g} s: {}".format(self.name, timeout_s, self.said())) from None

    def terminate(self):
        """Send SIGTERM to the command of the container, as kubelet does. Return the exit code and the seconds."""
        began = time.monotonic()
        main = "$(cat /run/main)" if self.spec.get("shareProcessNamespace") else "1"
        subprocess.run(["nsenter", "--target", str(self._init), "--mount", "--pid", "--root", "env",
                        "--chdir=/", "sh", "-c", "kill -TERM " + main], check=True)
        return self.wait(self.spec.get("terminationGracePeriodSeconds", 30)), time.monotonic() - began

    def kill(self):
        """End all processes of the pod."""
        if getattr(self, "_process", None) is not None:
            with contextlib.suppress(ProcessLookupError, AttributeError):
                os.kill(self._init, 9)
            self._process.kill()
            self._process.wait()

    # ---- the container's root directory

    def _root(self) -> List[str]:
        root = os.path.join(self._folder, "root")
        context = self.spec["securityContext"]
        user, group = context["runAsUser"], context["fsGroup"]
        own = "install -d -m 0700 -o {0} -g {0} ".format(user)
        lines = [
            "mkdir -p {0} && mount -t tmpfs -o mode=755 tmpfs {0} && cd {0}".format(shlex.quote(root)),
            "mkdir usr etc proc dev run tmp home opt && for one in bin lib lib64 sbin; do ln -s usr/$one $one; done",
            "mount --rbind -o ro /usr usr && mount -t proc proc proc && cp -a /etc/. etc && chmod 1777 tmp",
            "for one in null zero full random urandom tty; do touch dev/$one && mount --bind /dev/$one dev/$one; done",
            "ln -s /proc/self/fd dev/fd; ln -s /proc/self/fd/0 dev/stdin",
            "mkdir dev/shm && mount -t tmpfs -o mode=1777,size={} shm dev/shm".format(_SHM),
            "sed -i '/^[^:]*:[^:]*:{0}:/d' etc/passwd && echo 'ascpipe:x:{0}:{0}::/home/ascpipe:/bin/sh' >> etc/passwd"
            .format(user),
            "sed -i '/^[^:]*:[^:]*:{0}:/d' etc/group && echo 'ascpipe:x:{0}:' >> etc/group".format(user),
            own + "run/ascpipe home/ascpipe/.cache work home/ascpipe/.cache/ascpipe home/ascpipe/.sshd",
            "chown {0}:{0} home/ascpipe".format(user),
            # Kernels are compiled already, if they are on this machine.
            "if [ -d {0} ]; then cp -r {0} home/ascpipe/.cache/ascpipe/; fi".format(
                shlex.quote(kernel_cache.folder_of(os.environ.get("ASCPIPE_CACHE_DIR", "")))),
            "chown -R {0}:{0} home/ascpipe/.cache".format(user)]
        for path, text in {**self._image.etc, "hosts": "127.0.0.1 localhost\n" + self._hosts}.items():
            beside = os.path.join(self._folder, "etc-" + path.replace("/", "-"))
            with open(beside, "w") as file:
                file.write(text)
            lines.append("mkdir -p etc/{} && cp {} etc/{}".format(os.path.dirname(path), shlex.quote(beside), path))
        for mount in self.container["volumeMounts"]:
            lines += self._mount(mount, group)
        # Last, because a volume may lie over the folder of the tree.
        lines += ["mkdir -p .{0} && mount --rbind {0} .{0}".format(shlex.quote(path)) for path in _of_environment()]
        lines += ["ln -s {} opt/ascpipe".format(shlex.quote(sys.prefix)), "hostname " + self.name]
        lines += [" ".join(map(shlex.quote, ["chroot", ".", *self._as_user(), *one])) for one in self._image.commands]
        lines += ["touch {}".format(shlex.quote(os.path.join(self._folder, "is_set_up")))]
        return lines

    def _mount(self, mount: Mapping[str, Any], group: int) -> List[str]:
        volume = self._volumes[mount["name"]]
        path = "." + mount["mountPath"]
        lines = ["mkdir -p " + path]
        if "emptyDir" in volume:
            size = volume["emptyDir"].get("sizeLimit", "1Gi")
            lines.append("mount -t tmpfs -o mode=2777,gid={},size={} tmpfs {}".format(
                group, size[:-2] + _SIZES[size[-2:]], path))
        elif "persistentVolumeClaim" in volume:
            folder = shlex.quote(str(self._given[volume["name"]]))
            lines.append("chgrp -R {0} {1} && chmod -R g+rwX {1} && chmod g+s {1} && mount --bind {1} {2}".format(
                group, folder, path))
        else:
            source = volume.get("secret", volume.get("configMap"))
            lines.append("mount -t tmpfs -o mode=3777,gid={} tmpfs {}".format(group, path))
            for name, text in self._given[volume["name"]].texts.items():
                beside = os.path.join(self._folder, "{}-{}".format(volume["name"], name))
                with open(beside, "w") as file:
                    file.write(text)
                lines.append("install -m {:04o} -g {} {} {}/{}".format(
                    source["defaultMode"], group, shlex.quote(beside), path, name))
        return lines + ["mount -o remount,bind,ro " + path] if mount.get("readOnly") else lines

    # ---- the container's command

    def _command(self) -> List[str]:
        """Lines that replace the shell by the container's command, with PID 1 unless the pod shares its processes."""
        command = " ".join(map(shlex.quote, ["env", "-i", *self._variables(), *self._as_user(),
                                             *self.container["command"]]))
        inside = "cd {} && exec {}".format(self._directory(), command)
        if self.spec.get("shareProcessNamespace"):  # PID 1 is the pause process, which reaps processes
            inside = "( {} ) & echo $! > /run/main; code=0; wait $! || code=$?; exit $code".format(inside)
        return ["exec chroot . sh -c {}".format(shlex.quote(inside))]

    def _variables(self) -> List[str]:
        given = {**image_environment(), "HOSTNAME": self.name,
                 **{one["name"]: one["value"] for one in self.container.get("env", [])}}
        return ["{}={}".format(name, value) for name, value in given.items()]

    def _as_user(self) -> List[str]:
        context = self.spec["securityContext"]
        rights = self.container["securityContext"]
        assert rights == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        return ["setpriv", "--reuid", str(context["runAsUser"]), "--regid", str(context["runAsGroup"]), "--groups",
                str(context["fsGroup"]), "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]

    def _directory(self) -> str:
        return self.container.get("workingDir", "/work")


def _of_environment() -> List[str]:
    """Folders of this machine with the tree, its environment and the interpreter."""
    folders = [str(tree.ROOT), os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix)]
    return [folder for folder in dict.fromkeys(folders) if not folder.startswith("/usr") and not any(
        folder.startswith(other + "/") for other in folders)]


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
