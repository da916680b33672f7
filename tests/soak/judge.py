"""Pure functions that decide from samples whether processes grow.

For a process that lives for the whole run, the last fifth of its samples after the warm-up is compared with the first
fifth. The compared values are the median of memory, and the 10 % quantile of descriptors, mappings and threads, which
come and go with each save. A replaced process begins small again, so its samples are compared with samples of
processes of the same role and age. The growth during the life of a process is the difference between the last and the
first third of its samples.
"""
import math
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from tests.soak.samples import MEASURED, Sample

SUPERVISOR, TRAINER = "supervisor", "trainer"
FEWEST = 4  #: samples on each side of a comparison
LEAST_S = 300.0  #: after the warm-up: what is shorter is measured and not judged
YOUNGEST = -3  #: bracket of the youngest processes
BEGUN_S = 3.0  #: a younger process is still loading
GROWN_UP_S = 20.0  #: from this age on a process must not grow
LEAST_LIVED_S = 60.0  #: of all processes of a role together, to say how they grow
MEDIAN, FLOOR = 0.5, 0.1
COME_AND_GO = ("fds", "maps", "threads")

#: growth that is too much: of each process, by what is measured; of the daemon's processes together
LIMITS: Dict[str, float] = {"anon_kib": 2048, "shmem_kib": 2048, "fds": 4, "maps": 24, "threads": 1}
TRAINER_LIMITS: Dict[str, float] = {"anon_kib": 8192, "shmem_kib": 2048, "fds": 4, "maps": 64, "threads": 2}
DAEMON_KIB = 6144.0
AGING_KIB = 6144.0  #: of a worker or the template in ten minutes of its life


class Verdict(NamedTuple):
    """What the samples say.

    Attributes:
        drifts: by role and measure; a role with too few samples is not in it.
        aging: by role, KiB of anonymous memory that a process which is replaced now and then grows by in ten minutes.
        drift_kib: of the anonymous memory of the daemon's processes together; None: too few samples.
        drift_trainer_kib: of the trainer's; None: too few samples.
        problems: a sentence for each growth that is too much.
    """

    drifts: Dict[str, Dict[str, float]]
    aging: Dict[str, float]
    drift_kib: Optional[float]
    drift_trainer_kib: Optional[float]
    problems: List[str]


def judge(samples: Sequence[Sample], warm_up_s: float) -> Verdict:
    """Compare the end with the end of the warm-up."""
    settled = [sample for sample in samples if sample.at_s >= warm_up_s and sample.age_s >= BEGUN_S]
    if not settled:
        return Verdict({}, {}, None, None, [])
    end_s = max(sample.at_s for sample in settled)
    drifts: Dict[str, Dict[str, float]] = {}
    for role in sorted({sample.role for sample in settled}):
        of_role = [sample for sample in settled if sample.role == role]
        found = {name: _drift(of_role, name, warm_up_s, end_s) for name in MEASURED}
        if None not in found.values():
            drifts[role] = {name: value for name, value in found.items() if value is not None}
    aged = {role: aging([one for one in settled if one.role == role]) for role in {one.role for one in settled}
            if role not in (SUPERVISOR, TRAINER)}
    found_aging = {role: grown for role, grown in sorted(aged.items()) if grown is not None}
    drift_kib = sum(found["anon_kib"] for role, found in drifts.items() if role != TRAINER) if drifts else None
    return Verdict(drifts, found_aging, drift_kib, drifts[TRAINER]["anon_kib"] if TRAINER in drifts else None,
                   _too_much(drifts, found_aging, drift_kib) if end_s - warm_up_s >= LEAST_S else [])


def _too_much(drifts: Dict[str, Dict[str, float]], aged: Dict[str, float], drift_kib: Optional[float]) -> List[str]:
    problems = ["anon_kib of {} grows by {:.0f} in ten minutes of its life, more than {:g}".format(
        role, grown, AGING_KIB) for role, grown in aged.items() if grown > AGING_KIB]
    for role, found in drifts.items():
        for name, drift in found.items():
            limit = (TRAINER_LIMITS if role == TRAINER else LIMITS)[name]
            if drift > limit:
                problems.append("{} of {} grew by {:.0f}, more than {:g}".format(name, role, drift, limit))
    if drift_kib is not None and drift_kib > DAEMON_KIB:
        problems.append("anon_kib of the daemon's processes together grew by {:.0f}, more than {:g}".format(
            drift_kib, DAEMON_KIB))
    return problems


def _drift(samples: Sequence[Sample], name: str, warm_up_s: float, end_s: float) -> Optional[float]:
    """Of samples of one role after the warm-up."""
    fifth = (end_s - warm_up_s) / 5
    lives_on = len({sample.pid for sample in samples}) == 1
    return _grown(samples, name, lambda one: one.at_s <= warm_up_s + fifth, lambda one: one.at_s >= end_s - fifth,
                  warm_up_s / 2, FLOOR if lives_on and name in COME_AND_GO else MEDIAN)


def bracket(age_s: float, settled_s: float) -> int:
    """Processes of one bracket are of about one age: each is twice as old as the one before; 0: settled."""
    return min(0, max(YOUNGEST, math.floor(math.log2(max(age_s, 1e-3) / max(settled_s, 1e-3)))))


def _grown(samples: Sequence[Sample], name: str, is_first: Callable[[Sample], bool],
           is_last: Callable[[Sample], bool], settled_s: float, part: float) -> Optional[float]:
    """Growth from the first to the last samples of processes of the same age, the mean of all ages."""
    total, weights = 0.0, 0
    for age in range(YOUNGEST, 1):
        of_age = [one for one in samples if bracket(one.age_s, settled_s) == age]
        first, last = ([getattr(one, name) for one in of_age if chosen(one)] for chosen in (is_first, is_last))
        weight = min(len(first), len(last))
        if weight >= FEWEST:
            total += weight * (quantile(last, part) - quantile(first, part))
            weights += weight
    return total / weights if weights else None


def aging(samples: Sequence[Sample]) -> Optional[float]:
    """KiB of anonymous memory that processes of a role grow by in ten minutes of their lives; None: too short lives."""
    lives: Dict[int, List[Sample]] = {}
    for sample in samples:
        if sample.age_s >= GROWN_UP_S:
            lives.setdefault(sample.pid, []).append(sample)
    grown_kib = lived_s = 0.0
    for life in lives.values():
        third = len(life) // 3
        if third >= 2:
            first, last = life[:third], life[-third:]
            grown_kib += quantile([one.anon_kib for one in last], MEDIAN) - quantile(
                [one.anon_kib for one in first], MEDIAN)
            lived_s += quantile([one.age_s for one in last], MEDIAN) - quantile([one.age_s for one in first], MEDIAN)
    return 600.0 * grown_kib / lived_s if lived_s >= LEAST_LIVED_S else None


def quantile(values: Sequence[float], part: float) -> float:
    """The value that this part of all values does not exceed."""
    return sorted(values)[int(part * (len(values) - 1))]
