"""Timing, the same way for every case: contenders take turns, so that a noisy moment hits all of them.

A case yields ``Contenders``: what one call of each does, in units of work, ours first.  The harness warms
each up, then calls them round robin, and compares within rounds.
"""
import contextlib
import ctypes
import datetime
import os
import platform
import subprocess
import sys
import time
import warnings
from typing import Any, Callable, ContextManager, Dict, Iterator, List, Mapping, NamedTuple, Sequence

LEAST_REPEATS = 9  #: rounds below which a median says little

#: packages whose versions are written down with every result
VERSIONS_OF = ("numpy", "numba", "tensorflow", "pyzmq", "msgpack")

# glibc's mallopt: parameter numbers of malloc.h
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX = -1, -2, -4


class Contenders(NamedTuple):
    """What a case compares.

    Attributes:
        units: units of work in one call, the same for all.
        calls: by name, ours first; each call does the whole work and returns when it is done.
        before: by name, what is done before each call of that name, not timed; for those that need it.
    """

    units: int
    calls: Dict[str, Callable[[], object]]
    before: Mapping[str, Callable[[], object]] = {}


class Timing(NamedTuple):
    """Seconds per call over ``repeats`` calls."""

    least_s: float
    median_s: float
    most_s: float
    repeats: int


class Compared(NamedTuple):
    """A contender that is not ours.

    Attributes:
        timing: its own.
        ratio: how many times as long it takes as ours: the median of the ratios within rounds.
        least_ratio, most_ratio: of single rounds.
    """

    timing: Timing
    ratio: float
    least_ratio: float
    most_ratio: float


class Result(NamedTuple):
    """One variant of a case, measured."""

    name: str
    unit: str
    topology: str
    units: int
    ours: str
    timing: Timing
    baselines: Dict[str, Compared]


class Case(NamedTuple):
    """Something to measure.

    Attributes:
        name: of the case; a variant is ``name/variant``.
        unit: of work, in the singular: id, batch, step, call.
        topology: who works, such as one_thread, one_producer_one_consumer.
        variants: names of the workloads.
        prepare: context manager that sets a variant up and yields its ``Contenders``.
        says: one sentence for ``--list``.
    """

    name: str
    unit: str
    topology: str
    variants: Sequence[str]
    prepare: Callable[[str], ContextManager[Contenders]]
    says: str


def summary(seconds: Sequence[float]) -> Timing:
    """Least, median and most of some times."""
    if not seconds:
        raise ValueError("no times to summarise")
    return Timing(min(seconds), median(seconds), max(seconds), len(seconds))


def median(values: Sequence[float]) -> float:
    """The middle one; of an even number the mean of the two in the middle."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def measure(contenders: Contenders, *, warm_up: int = 2, repeats: int = LEAST_REPEATS,
            clock: Callable[[], float] = time.perf_counter) -> Dict[str, List[float]]:
    """Seconds of each call, by name, in the order of the rounds.

    Args:
        contenders: whose calls to time; A B C, A B C, ...
        warm_up: calls of each before the first round, not timed.
        repeats: rounds.
        clock: seconds, ever growing.
    """
    for call in contenders.calls.values():
        for _ in range(warm_up):
            call()
    seconds: Dict[str, List[float]] = {name: [] for name in contenders.calls}
    for _ in range(repeats):
        for name, call in contenders.calls.items():
            if name in contenders.before:
                contenders.before[name]()
            started = clock()
            call()
            seconds[name].append(clock() - started)
    return seconds


def repeated(step: Callable[[], object], times: int) -> Callable[[], object]:
    """Several steps in one call."""
    return lambda: [step() for _ in range(times)]


def compare(ours: Sequence[float], other: Sequence[float]) -> Compared:
    """Another contender against ours, round by round."""
    ratios = [theirs / mine for mine, theirs in zip(ours, other)]
    return Compared(summary(other), median(ratios), min(ratios), max(ratios))


def run_variant(case: Case, variant: str, *, warm_up: int = 2, repeats: int = LEAST_REPEATS) -> Result:
    """Set one variant of a case up, measure it, and take it down."""
    with case.prepare(variant) as contenders:
        if contenders.units < 1 or not contenders.calls:
            raise ValueError("{}/{}: {} units of work in {} calls".format(
                case.name, variant, contenders.units, len(contenders.calls)))
        seconds = measure(contenders, warm_up=warm_up, repeats=repeats)
    ours = next(iter(contenders.calls))
    baselines = {name: compare(seconds[ours], times) for name, times in seconds.items() if name != ours}
    return Result("{}/{}".format(case.name, variant), case.unit, case.topology, contenders.units, ours,
                  summary(seconds[ours]), baselines)


def as_json(result: Result) -> Dict[str, Any]:
    """A result as plain maps."""
    fields = dict(result._asdict(), timing=dict(result.timing._asdict()))
    fields["baselines"] = {name: dict(compared._asdict(), timing=dict(compared.timing._asdict()))
                           for name, compared in result.baselines.items()}
    return fields


def text_of(result: Result) -> Iterator[str]:
    """A result as lines for people."""
    yield "{}  [{} x {} per call, {}, {} rounds]".format(
        result.name, result.units, result.unit, result.topology, result.timing.repeats)
    yield _line(result.ours, result.timing, result, "")
    for name, compared in result.baselines.items():
        yield _line(name, compared.timing, result, "{:6.2f} x ours [{:.2f}..{:.2f}]".format(
            compared.ratio, compared.least_ratio, compared.most_ratio))


def _line(name: str, timing: Timing, result: Result, end: str) -> str:
    per_unit = timing.median_s / result.units
    line = "  {:<44} {:>10} per {}  {:>10} per call [{}..{}]  {}".format(
        name, duration(per_unit), result.unit, duration(timing.median_s), duration(timing.least_s),
        duration(timing.most_s), end)
    return line.rstrip()


def duration(seconds: float) -> str:
    """A time with three digits and its unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return "{:.3g} {}".format(seconds / size, unit)
    return "{:.3g} ns".format(seconds / 1e-9)


# ---- what stands beside every number ---------------------------------------------------------------------

def circumstances() -> Dict[str, Any]:
    """Machine, commit, versions, command and date."""
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"),
            "command": " ".join(["python", "-m", "bench"] + sys.argv[1:]), "commit": commit(), "versions": versions(),
            "machine": machine()}


def machine() -> Dict[str, Any]:
    """Processor, cores this process may use, memory in bytes, kernel, load average of the last minute."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "memory_bytes": pages * page,
            "kernel": platform.release(), "load": os.getloadavg()[0]}


def _processor() -> str:
    with open("/proc/cpuinfo") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def commit() -> str:
    """The commit of the tree, with ``+`` when files differ from it; "unknown" outside a repository."""
    folder = os.path.dirname(os.path.abspath(__file__))
    try:
        done = subprocess.run(["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"], cwd=folder,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=10, text=True)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def versions() -> Dict[str, str]:
    """Python's, and that of each package of ``VERSIONS_OF`` that is installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # its successor is newer than this Python
        import pkg_resources  # type: ignore[import]

    found = {"python": platform.python_version()}
    for package in VERSIONS_OF:
        with contextlib.suppress(pkg_resources.DistributionNotFound):
            found[package] = pkg_resources.get_distribution(package).version
    return found


def steady_malloc() -> bool:
    """Have malloc keep large blocks, so that page faults do not come and go; whether glibc agreed.

    Outputs of 10 MB cross its mmap threshold: up to 12 ms of page faults per training step, on every side, depending
    on the history of the heap.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return all(mallopt(parameter, value) == 1 for parameter, value in (
        (_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2 ** 31 - 1), (_M_TOP_PAD, 256 << 20)))
