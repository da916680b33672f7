"""Reading and parsing of batches of 4,096 records, alone and in a training program. See ``bench/parse_program.py`` and
``bench/usual_input.py``.

A side starts its turn when the other side has filled its buffers. The first steps of the turn consume the batches that
were prepared before, and are not timed.
"""
import contextlib
from typing import Dict, Iterator, NamedTuple

from bench import input_sides, usual_model, workloads
from bench.goals import RATIO, Goal
from bench.harness import Case, Contenders
from bench.input_sides import NAMES
from bench.parse_program import PREFETCH
from bench.parse_program import Setting as ParseSetting
from bench.usual_input import FLOATS
from bench.usual_model import LINES, OURS, PARQUET, PLAIN, RECORDS, SHUFFLED_RECORDS, SINGLE_RECORDS
from bench.usual_sides import Side

_BATCHES = 40
_FEW_BATCHES = 8  # for files with large records
_ROUNDS = 5  # rounds of variants in which a step of TensorFlow takes a third of a second
_READ = ParseSetting(OURS, 26, floats=FLOATS, batches=_BATCHES, reads=True)


class _Variant(NamedTuple):
    """Setting, timed steps of a turn, and minimum of TensorFlow's time as a multiple of our time."""

    setting: input_sides.Setting
    steps: int
    ratio: float


def _train(source: str, *, reads: bool = False) -> usual_model.Setting:
    return usual_model.Setting(OURS, 26, 4096, batches=_BATCHES, source=source, reads=reads, prefetch=PREFETCH)


VARIANTS = {
    "parse-26": _Variant(ParseSetting(OURS, 26, floats=FLOATS, batches=_BATCHES), 100, 2),
    "parse-26-one-by-one": _Variant(ParseSetting(OURS, 26, floats=FLOATS, batches=_BATCHES, one_by_one=True), 20, 15),
    "parse-39": _Variant(ParseSetting(OURS, 39), 100, 2),
    "parse-26-lists": _Variant(ParseSetting(OURS, 26, most_values=20, batches=_FEW_BATCHES), 40, 1),
    "parse-300": _Variant(ParseSetting(OURS, 300, batches=_FEW_BATCHES), 20, 2),
    "read-26": _Variant(_READ, 100, 5),
    "read-26-2-readers": _Variant(_READ._replace(readers=2), 100, 5),
    "read-26-4-readers": _Variant(_READ._replace(readers=4), 100, 5),
    "read-26-one-by-one": _Variant(_READ._replace(one_by_one=True), 20, 80),
    "train-read-records": _Variant(_train(RECORDS, reads=True), 40, 2.6),
    "train-read-shuffled-records": _Variant(_train(SHUFFLED_RECORDS, reads=True), 20, 10),
    "train-read-lines": _Variant(_train(LINES, reads=True), 20, 6),
    "train-read-parquet": _Variant(_train(PARQUET, reads=True), 40, 1.4),
    "train-records": _Variant(_train(RECORDS), 40, 1.5),
    "train-single-records": _Variant(_train(SINGLE_RECORDS), 20, 6),
    "train-shuffled-records": _Variant(_train(SHUFFLED_RECORDS), 20, 6),
    "train-lines": _Variant(_train(LINES), 20, 4),
}
_SLOW = ("parse-26-one-by-one", "train-single-records", "train-shuffled-records", "train-lines",
         "read-26-one-by-one", "train-read-shuffled-records", "train-read-lines")


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    steps = workloads.sized(VARIANTS[variant].steps, 2)
    with input_sides.running(input_sides.sized(VARIANTS[variant].setting)) as sides:
        ours = sides[NAMES[OURS]]
        plain = sides[NAMES[PLAIN]]

        def lead(side: Side, other: Side) -> None:
            other.wait_until_idle()
            side.lead()

        yield Contenders(steps, {name: side.turn(steps) for name, side in sides.items()},
                         {NAMES[OURS]: lambda: lead(ours, plain), NAMES[PLAIN]: lambda: lead(plain, ours)},
                         notes=lambda: _notes(sides, steps))


def _notes(sides: Dict[str, Side], steps: int) -> Dict[str, str]:
    return {"processor time of a step, {}".format(name): "{:.2f} ms".format(1e3 * side.a_step("used_s", steps))
            for name, side in sides.items()}


CASE = Case("input", "step", "one_program", tuple(VARIANTS), prepare,
            "a batch of 4,096 records of a file, parsed (parse-..., read-...) or trained with (train-...)",
            {name: [Goal(RATIO, variant.ratio, NAMES[PLAIN])] for name, variant in VARIANTS.items()}, warm_up=1,
            repeats_of=dict.fromkeys(_SLOW, _ROUNDS))
