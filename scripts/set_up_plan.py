"""Tasks of set-up, their order, and estimates of their duration. The module does no file I/O."""
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple


class Found(NamedTuple):
    """State that set-up finds.

    Attributes:
        environment: whether .venv has an interpreter.
        packages: whether the packages of requirements.lock are installed.
        dev: whether the packages of requirements-dev.lock are installed or not requested.
        kept: whether the user's cache has an environment with all these packages.
        tree: whether the tree is installed in .venv with its current path.
        libraries: whether libraries of ops exist. They may be out of date.
        kernels: whether the kernels of this state of the tree are compiled.
        kernels_in_cache: whether the user's cache has compiled kernels of these sources, so that the task is short.
        charts: whether the charting library of the dashboard is installed, or cannot be fetched without npm.
    """

    environment: bool
    packages: bool
    dev: bool
    kept: bool
    tree: bool
    libraries: bool
    kernels: bool
    kernels_in_cache: bool = False
    charts: bool = True


class Task(NamedTuple):
    """Part of set-up that one process performs.

    Attributes:
        name: name of the task.
        text: description of the task for the user.
        after: names of tasks that must be completed before this task.
        seconds: processor time on a machine of 2020, for the initial estimate.
    """

    name: str
    text: str
    after: Tuple[str, ...]
    seconds: float


def tasks(found: Found) -> List[Task]:
    """Return the remaining tasks. A task is listed after the tasks on which it depends.

    The task for the ops is always included, because the build itself compares the ops with their sources.
    """
    ready = found.environment and found.packages
    from_cache = found.kept and not (ready and found.dev)
    pip = not ready and not from_cache
    chosen = []
    if from_cache:
        chosen.append(Task("environment", "taking .venv from the cache", (), 2))
    elif pip:
        chosen += [Task("environment", "making .venv", (), 5),
                   Task("packages", "installing packages", ("environment",), 12),
                   Task("tensorflow", "installing TensorFlow", ("environment",), 8)]
    if not found.dev and not from_cache:
        chosen.append(Task("dev", "installing packages for linters and tests", ("packages",), 10))
    if from_cache or pip or not found.tree:
        chosen.append(Task("tree", "installing this tree", ("environment", "packages"), 4))
    if not found.kernels:
        text = "looking at the kernels" if found.kernels_in_cache else "compiling kernels"
        chosen.append(Task("kernels", text, ("environment", "packages", "tree"), 3 if found.kernels_in_cache else 45))
    if not found.charts:
        chosen.append(Task("charts", "fetching uPlot for the dashboard", (), 1))
    if pip and not found.libraries:
        chosen.append(Task("core", "compiling C++ that needs no TensorFlow", ("packages",), 30))
    fresh = 1 if found.libraries or from_cache else 55
    chosen.append(Task("ops", "building the TensorFlow ops", ("environment", "packages", "tensorflow", "core"), fresh))
    if pip or (not found.dev and not from_cache):
        chosen.append(Task("keep", "keeping .venv for other trees", tuple(task.name for task in chosen), 2))
    names = {task.name for task in chosen}
    return [task._replace(after=tuple(name for name in task.after if name in names)) for task in chosen]


def ready(waiting: Iterable[Task], done: Set[str]) -> List[Task]:
    """Return the tasks that can start."""
    return [task for task in waiting if done.issuperset(task.after)]


def progress_in(line: str) -> Optional[Tuple[int, int]]:
    """Parse a progress line of a task, ``[3/28] ...``. Return (completed parts, all parts), or None for other lines."""
    head, bracket, _ = line.partition("] ")
    if not bracket or not head.startswith("["):
        return None
    done, slash, total = head[1:].partition("/")
    if not slash or not done.isdigit() or not total.isdigit() or int(total) == 0:
        return None
    return min(int(done), int(total)), int(total)


def fraction(task: Task, ran_s: float, parts: Optional[Tuple[int, int]]) -> float:
    """Return the completed fraction of a running task. If the task reports no parts, estimate it from its time, at most
    0.95.
    """
    if parts is not None:
        return parts[0] / parts[1]
    return min(0.95, ran_s / (2 * task.seconds))  # other tasks run at the same time


def remaining_of_parts_s(ran_s: float, parts: Optional[Tuple[int, int]]) -> float:
    """Return the estimated remaining seconds of a running task, or 0 if the task has not completed a part.

    Compilers work on two parts at a time, which count as half completed. Without them, the estimate after the first
    part would be far too high.
    """
    if parts is None or not parts[0]:
        return 0.0
    done = min(parts[0] + 1, parts[1])
    return ran_s * (parts[1] - done) / done


def remaining_s(all_tasks: Sequence[Task], fractions: Dict[str, float], elapsed_s: float, cores: int) -> float:
    """Return the estimated seconds until all tasks are completed.

    The initial estimate is the known processor time of the tasks. It is corrected by the measured speed.

    Args:
        all_tasks: every task.
        fractions: completed fraction, from 0 to 1, by name of a task. Tasks that are missing have not started.
        elapsed_s: seconds since the first task began.
        cores: number of processors of this machine. At most two are considered busy.
    """
    done = sum(task.seconds * fractions.get(task.name, 0.0) for task in all_tasks)
    left = sum(task.seconds for task in all_tasks) - done
    assumed_s = 15.0  # weight of the assumption
    rate = (done + assumed_s * min(cores, 2)) / (elapsed_s + assumed_s)
    return left / rate


def split_lock(text: str, names: Iterable[str]) -> Tuple[str, str]:
    """Split a file of requirements with hashes. Return (requirements with these names, all other requirements)."""
    wanted = set(names)
    chosen: List[str] = []
    others: List[str] = []
    into = others
    for line in text.splitlines(True):
        if line[:1] not in (" ", "#", "\n"):
            into = chosen if line.split("==")[0].strip() in wanted else others
        into.append(line)
    return "".join(chosen), "".join(others)


def clock(seconds: float) -> str:
    """Format seconds as minutes and seconds."""
    return "{}:{:02d}".format(int(seconds) // 60, int(seconds) % 60)


def status(all_tasks: Sequence[Task], running: Dict[str, Optional[Tuple[int, int]]], done: Set[str], elapsed_s: float,
           left_s: float) -> str:
    """Return the line that shows the running tasks.

    Args:
        all_tasks: every task.
        running: (completed parts, all parts) by name of a task, or None if the task does not report parts.
        done: names of completed tasks.
        elapsed_s: seconds since the first task began.
        left_s: estimated seconds until all tasks are completed.
    """
    now = [task.text + (" {}/{}".format(*(running[task.name] or ())) if running[task.name] else "")
           for task in all_tasks if task.name in running]
    return "{}  {} of {} done, about {} left | {}".format(
        clock(elapsed_s), len(done), len(all_tasks), clock(left_s), ", ".join(now))
