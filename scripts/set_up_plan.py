"""Decides what set-up has to do, in which order, and how long that may take. Nothing here reads or writes a file."""
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple


class Found(NamedTuple):
    """What set-up finds.

    Attributes:
        environment: .venv has a CPython 3.7.
        packages: the packages of requirements.lock are installed.
        dev: those of requirements-dev.lock are, too, or they are not asked for.
        kept: the user's cache has an environment with all of these packages.
        tree: the tree is installed in .venv, for the place where it is now.
        libraries: there are libraries of ops, which may be out of date.
        kernels: the kernels of this state of the tree are compiled.
        kernels_in_cache: so they seem to be for another tree of the same user: there is little to do.
    """

    environment: bool
    packages: bool
    dev: bool
    kept: bool
    tree: bool
    libraries: bool
    kernels: bool
    kernels_in_cache: bool = False


class Task(NamedTuple):
    """A part of set-up, done by one process.

    Attributes:
        name: of the task.
        text: what it does, for the user.
        after: names of tasks that have to be done first.
        seconds: processor time that it takes on a machine of 2020, to begin the estimate with.
    """

    name: str
    text: str
    after: Tuple[str, ...]
    seconds: float


def tasks(found: Found) -> List[Task]:
    """The tasks that are left to do, those that others wait for first.

    The ops are always looked at: the build itself compares them with their sources.
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
    if pip and not found.libraries:
        chosen.append(Task("core", "compiling C++ that needs no TensorFlow", ("packages",), 30))
    fresh = 1 if found.libraries or from_cache else 55
    chosen.append(Task("ops", "building the TensorFlow ops", ("environment", "packages", "tensorflow", "core"), fresh))
    if pip or (not found.dev and not from_cache):
        chosen.append(Task("keep", "keeping .venv for other trees", tuple(task.name for task in chosen), 2))
    names = {task.name for task in chosen}
    return [task._replace(after=tuple(name for name in task.after if name in names)) for task in chosen]


def ready(waiting: Iterable[Task], done: Set[str]) -> List[Task]:
    """The tasks that can begin."""
    return [task for task in waiting if done.issuperset(task.after)]


def progress_in(line: str) -> Optional[Tuple[int, int]]:
    """What a line of a task says of its progress, ``[3/28] ...``: how many parts are done, of how many."""
    head, bracket, _ = line.partition("] ")
    if not bracket or not head.startswith("["):
        return None
    done, slash, total = head[1:].partition("/")
    if not slash or not done.isdigit() or not total.isdigit() or int(total) == 0:
        return None
    return min(int(done), int(total)), int(total)


def fraction(task: Task, ran_s: float, parts: Optional[Tuple[int, int]]) -> float:
    """How much of a running task is done: as it says itself, else by its time, and then never all of it."""
    if parts is not None:
        return parts[0] / parts[1]
    return min(0.95, ran_s / (2 * task.seconds))  # others run beside it


def remaining_of_parts_s(ran_s: float, parts: Optional[Tuple[int, int]]) -> float:
    """Return the estimated remaining seconds of a running task, or 0 if the task has not completed a part."""
    return ran_s * (parts[1] - parts[0]) / parts[0] if parts is not None and parts[0] else 0.0


def remaining_s(all_tasks: Sequence[Task], fractions: Dict[str, float], elapsed_s: float, cores: int) -> float:
    """Estimated seconds until all tasks are done.

    It begins with the processor time that tasks are known to take, and is corrected by how fast the work has been done
    so far.

    Args:
        all_tasks: every task.
        fractions: name -> how much of the task is done, from 0 to 1; tasks that are not there have not begun.
        elapsed_s: seconds since the first task began.
        cores: processors of this machine, of which two are kept busy.
    """
    done = sum(task.seconds * fractions.get(task.name, 0.0) for task in all_tasks)
    left = sum(task.seconds for task in all_tasks) - done
    assumed_s = 15.0  # weight of the assumption
    rate = (done + assumed_s * min(cores, 2)) / (elapsed_s + assumed_s)
    return left / rate


def split_lock(text: str, names: Iterable[str]) -> Tuple[str, str]:
    """A file of requirements with hashes, divided: the requirements with these names, and all others."""
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
    """Minutes and seconds."""
    return "{}:{:02d}".format(int(seconds) // 60, int(seconds) % 60)


def status(all_tasks: Sequence[Task], running: Dict[str, Optional[Tuple[int, int]]], done: Set[str], elapsed_s: float,
           left_s: float) -> str:
    """The line that shows what runs.

    Args:
        all_tasks: every task.
        running: name -> parts that are done, of how many; None: the task does not say.
        done: names of tasks that are done.
        elapsed_s: seconds since the first task began.
        left_s: estimated seconds until all are done.
    """
    now = [task.text + (" {}/{}".format(*(running[task.name] or ())) if running[task.name] else "")
           for task in all_tasks if task.name in running]
    return "{}  {} of {} done, about {} left | {}".format(
        clock(elapsed_s), len(done), len(all_tasks), clock(left_s), ", ".join(now))
