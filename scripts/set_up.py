"""Main program of scripts/setup.sh. It sets up the tree with the CPython that runs this file.

Independent tasks run at the same time; set_up_plan.py lists their dependencies. A second run is fast: the build of the
ops compares them with their sources, and each other task leaves a stamp with the digest of its inputs. File times
cannot be used for that, because .venv may be copied into a tree with older files.

::

    python3.7 scripts/set_up.py [dev]            dev = install the packages for linters and tests, too
    python3.7 scripts/set_up.py --task NAME      one task; set-up starts these processes

Exit codes: 0 success, 1 a task failed, 2 a program is missing on this machine.
"""
import contextlib
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Set, Tuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT)]
import get_uplot  # noqa: E402
import kept_environments  # noqa: E402
import set_up_plan as plan  # noqa: E402

from ascpipe.daemon import kernel_cache  # noqa: E402
from ascpipe.directories import cache_dir  # noqa: E402
from ascpipe.errors import AscpipeError  # noqa: E402

VENV = ROOT / ".venv"
PYTHON = str(VENV / "bin/python")
STAMPS = VENV / ".stamps"
RUNTIME = "" if sys.version_info < (3, 8) else "-tf2"  # TensorFlow 1.15 or 2.15
LOCK, DEV_LOCK = ROOT / "requirements{}.lock".format(RUNTIME), ROOT / "requirements-dev{}.lock".format(RUNTIME)
TENSORFLOW = ("tensorflow", "tensorflow-cpu")
LIBRARY = ROOT / "tfops/libascpipe_ops.so"
FIRST = ("pip", "setuptools", "wheel")  # installed first, because gast has no wheel and is built with them
TICK_S = 10.0  # maximum time without output
QUIET_S = 1.5  # a shorter run prints nothing
MISSING = 2


def say(text: str) -> None:
    """Print a line for the user."""
    print("setup: " + text, file=sys.stderr, flush=True)


# ---- stamps

def digest(*parts: bytes) -> str:
    """Return the SHA-256 of these parts."""
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def expected_stamps() -> Dict[str, str]:
    """Return the expected content of the stamp of each task for the current tree."""
    sources = [path for folder in ("ascpipe", "workers") for ending in ("*.py", "*.c")
               for path in sorted((ROOT / folder).rglob(ending))]
    packaging = [ROOT / folder / name for folder in (".", "packaging/mx_rec")
                 for name in ("pyproject.toml", "setup.py")]
    return {
        "packages": digest(LOCK.read_bytes()),
        "dev": digest(DEV_LOCK.read_bytes()),
        # The path is part of the digest, because a moved or copied tree must not run the code of the old path.
        "tree": digest(*(path.read_bytes() for path in packaging), str(ROOT).encode()),
        "kernels": digest(*(path.read_bytes() for path in sources), cache_dir("").encode()),
    }


def is_stamped(name: str, expected: str) -> bool:
    """Return whether the task was done for the current tree."""
    try:
        return (STAMPS / name).read_text() == expected
    except OSError:
        return False


def stamp(name: str) -> None:
    """Record that the task was done."""
    STAMPS.mkdir(exist_ok=True)
    # Replace the file, because other trees may have hard links to it (kept_environments.py, cp -al).
    beside = STAMPS / (name + ".new")
    beside.write_text(expected_stamps()[name])
    beside.replace(STAMPS / name)


def look(dev: bool) -> plan.Found:
    """Return the state of the tree and the cache."""
    stamps = expected_stamps()
    environment = os.access(PYTHON, os.X_OK)
    packages = environment and is_stamped("packages", stamps["packages"])
    with_dev = not dev or (packages and is_stamped("dev", stamps["dev"]))
    return plan.Found(
        environment=environment, packages=packages, dev=with_dev,
        kept=not (packages and with_dev) and kept_environment(dev) is not None,
        tree=is_stamped("tree", stamps["tree"]), libraries=LIBRARY.exists(),
        kernels=is_stamped("kernels", stamps["kernels"]) and any(Path(cache_dir("")).glob("kernels-*/*")),
        kernels_in_cache=any(Path(kernel_cache.folder_of("")).glob("*")),
        charts=has_charts() or shutil.which("npm") is None)


def has_charts() -> bool:
    """Return whether the charting library of the dashboard is installed."""
    return get_uplot.is_installed(get_uplot.locked(get_uplot.LOCK.read_text()).digest)


def kept_name(dev: bool) -> str:
    """Return the name of the environment in the cache."""
    return kept_environments.digest_of(sys.executable, LOCK, *([DEV_LOCK] if dev else []))


def kept_environment(dev: bool) -> Optional[str]:
    """Return the environment in the cache, or None if there is no usable environment."""
    try:
        return kept_environments.find(kept_name(dev))
    except (OSError, AscpipeError) as error:
        say("environments in the cache are not used: {}".format(error))
        return None


# ---- the tasks

def run(*command: str, **environment: str) -> None:
    """Run a command in the tree. Its output is printed.

    Raises:
        CalledProcessError: the command failed.
    """
    subprocess.run(command, check=True, cwd=str(ROOT), env={**os.environ, **environment}, stdin=subprocess.DEVNULL)


def install(*what: str, **environment: str) -> None:
    """Have pip install packages into .venv."""
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *what, **environment)


def install_lock(name: str, text: str) -> None:
    """Install requirements with hashes."""
    with tempfile.NamedTemporaryFile("w", prefix=name, suffix=".lock") as lock:
        lock.write(text)
        lock.flush()
        install("--require-hashes", "--no-build-isolation", "-r", lock.name)


def do_environment(dev: bool) -> None:
    """Create .venv, or copy an environment with all packages from the cache."""
    kept = kept_environment(dev)
    if kept is not None:
        kept_environments.replace(kept, str(VENV))
        return
    if not os.access(PYTHON, os.X_OK):
        shutil.rmtree(str(VENV), ignore_errors=True)
        try:
            run(sys.executable, "-m", "venv", str(VENV))
        except subprocess.CalledProcessError:
            say("the module venv is missing (Debian: apt-get install python3-venv)")
            sys.exit(MISSING)
    install_lock("first", plan.split_lock(LOCK.read_text(), FIRST)[0])


def do_packages(dev: bool) -> None:
    """Install all packages except TensorFlow."""
    install_lock("packages", plan.split_lock(LOCK.read_text(), (*FIRST, *TENSORFLOW))[1])


def do_tensorflow(dev: bool) -> None:
    """Install TensorFlow."""
    install_lock("tensorflow", plan.split_lock(LOCK.read_text(), TENSORFLOW)[0])


def do_dev(dev: bool) -> None:
    """Install the packages for linters and tests."""
    install_lock("dev", DEV_LOCK.read_text())
    stamp("dev")


def do_tree(dev: bool) -> None:
    """Install the tree as an editable package."""
    activate = (VENV / "bin/activate").read_text()
    old = activate.partition('VIRTUAL_ENV="')[2].partition('"')[0]
    if old != str(VENV):  # its scripts refer to another path
        run(PYTHON, "scripts/move_venv.py", old, str(VENV))
        # A copied tree has new file times, so Python would compile the modules of TensorFlow again. If
        # PYTHONDONTWRITEBYTECODE is set, it would do that in each process. Some files are for other Python
        # versions and do not compile.
        with contextlib.suppress(subprocess.CalledProcessError):
            run(PYTHON, "-m", "compileall", "-qq", "-j", "0", *map(str, VENV.glob("lib/python3.*/site-packages")))
    install("--no-build-isolation", "-e", ".", "-e", "packaging/mx_rec", SET_UP_BUILDS_OPS="1")
    stamp("tree")


def do_kernels(dev: bool) -> None:
    """Compile the kernels of the workers.

    Workers load byte code and kernels from caches. This task fills the caches, so that the first worker starts fast.
    """
    run(PYTHON, "-m", "compileall", "-q", "ascpipe", "workers", "tfops", "mx_rec")
    run(str(VENV / "bin/ascpipe"), "warmup")
    stamp("kernels")


def do_core(dev: bool) -> None:
    """Compile the units of the ops that do not need TensorFlow."""
    run(PYTHON, "-W", "ignore", "scripts/build_ops.py", "--without-tensorflow")


def do_ops(dev: bool) -> None:
    """Bring the ops up to date. The task starts when all packages are installed."""
    if not is_stamped("packages", expected_stamps()["packages"]):
        stamp("packages")
    run(PYTHON, "-W", "ignore", "scripts/build_ops.py")


def do_charts(dev: bool) -> None:
    """Install the charting library of the dashboard."""
    run(sys.executable, "scripts/get_uplot.py")


def do_keep(dev: bool) -> None:
    """Store .venv in the cache."""
    try:
        kept_environments.keep(kept_name(dev), str(VENV))
    except (OSError, AscpipeError) as error:
        say("the environment is not kept: {}".format(error))


TASKS = {"environment": do_environment, "packages": do_packages, "tensorflow": do_tensorflow, "dev": do_dev,
         "tree": do_tree, "kernels": do_kernels, "core": do_core, "ops": do_ops, "charts": do_charts, "keep": do_keep}


# ---- running the tasks

def command_of(task: plan.Task, dev: bool) -> List[str]:
    """Return the command of the process that performs a task."""
    return [sys.executable, str(Path(__file__)), "--task", task.name, *(["dev"] if dev else [])]


class Running:
    """Running task and its output."""

    def __init__(self, task: plan.Task, dev: bool, folder: str) -> None:
        self.task, self.began = task, time.monotonic()
        self.printed = Path(folder, task.name)
        with self.printed.open("w") as printed:
            self.process = subprocess.Popen(command_of(task, dev), stdout=printed, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, start_new_session=True)

    def output(self) -> str:
        """Return the output of the task."""
        return self.printed.read_text(errors="replace")

    def parts(self) -> Optional[Tuple[int, int]]:
        """Return (completed parts, all parts), or None if the task does not report parts."""
        said = [found for found in map(plan.progress_in, self.output().splitlines()) if found]
        return said[-1] if said else None

    def stop(self) -> None:
        """End the task and all processes that it has started."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(5.0)


class Display:
    """Display of running tasks. It prints a line after each change, and at least one line every ten seconds."""

    def __init__(self) -> None:
        self.began, self.spoke, self.last = time.monotonic(), 0.0, ""

    def show(self, every: Sequence[plan.Task], running: Dict[str, Running], done: Set[str]) -> None:
        """Print a line if a line is due."""
        now = time.monotonic()
        elapsed = now - self.began
        what = " ".join([*sorted(running), str(len(done))])
        if elapsed < QUIET_S or not running or (what == self.last and now - self.spoke < TICK_S):
            return
        parts = {name: one.parts() for name, one in running.items()}
        fractions = {name: plan.fraction(one.task, now - one.began, parts[name]) for name, one in running.items()}
        fractions.update(dict.fromkeys(done, 1.0))
        left = max([plan.remaining_s(every, fractions, elapsed, os.cpu_count() or 1), 1.0,
                    *(plan.remaining_of_parts_s(now - one.began, parts[name]) for name, one in running.items())])
        say(plan.status(every, parts, done, elapsed, left))
        self.last, self.spoke = what, now


def run_all(every: List[plan.Task], dev: bool) -> int:
    """Run all tasks. Return the exit code. The first failure ends all other tasks."""
    waiting = list(every)
    running: Dict[str, Running] = {}
    done: Set[str] = set()
    display = Display()
    with tempfile.TemporaryDirectory(prefix="set-up-") as folder:
        try:
            while waiting or running:
                for task in plan.ready(waiting, done):
                    waiting.remove(task)
                    running[task.name] = Running(task, dev, folder)
                display.show(every, running, done)
                time.sleep(0.05)
                for name, one in list(running.items()):
                    code = one.process.poll()
                    if code is None:
                        continue
                    del running[name]
                    if code != 0:
                        say("FAILED: {} (exit code {}). It printed:".format(one.task.text, code))
                        sys.stderr.write(one.output())
                        return MISSING if code == MISSING else 1
                    done.add(name)
        finally:
            for one in running.values():
                one.stop()
    if display.last and not has_charts():
        say("uPlot could not be fetched with npm, so `ascpipe dashboard` shows tables instead of charts")
    if display.last:
        say("done in {}".format(plan.clock(time.monotonic() - display.began)))
    return 0


def main(arguments: Sequence[str]) -> int:
    """Run set-up or one task. Return the exit code."""
    dev = "dev" in arguments
    if arguments[:1] == ["--task"]:
        try:
            TASKS[arguments[1]](dev)
        except subprocess.CalledProcessError as error:
            return 1 if error.returncode != MISSING else MISSING
        return 0
    found = look(dev)
    compiler = shlex.split(os.environ.get("CXX", "g++"))[0]
    if not found.libraries and not shutil.which(compiler):
        say("{} is missing (Debian: apt-get install g++)".format(compiler))
        return MISSING
    return run_all(plan.tasks(found), dev)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
