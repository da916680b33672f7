"""One exchange between ranks with Horovod's alltoall over gloo on this machine. A step of several ranks has two
exchanges.

A variant is a number of ranks and the total bytes that each rank sends to the other ranks.
"""
import contextlib
from typing import Dict, Iterator

from bench import ranks_sides, workloads
from bench.harness import Case, Contenders, median
from bench.ranks_sides import EXCHANGE, Launched

_SIZES = {"64KB": 1 << 16, "2MB": 2 << 20, "8MB": 8 << 20}
VARIANTS = {"{}-ranks-{}".format(ranks, size): Launched(EXCHANGE, ranks, _SIZES[size])
            for ranks, size in ((2, "64KB"), (2, "2MB"), (2, "8MB"), (4, "64KB"), (8, "64KB"), (16, "64KB"))}


@contextlib.contextmanager
def prepare(variant: str) -> Iterator[Contenders]:
    launched = VARIANTS[variant]
    exchanges = workloads.sized(100, 2)
    with ranks_sides.running([launched]) as programs:
        program = programs[launched.name]
        yield Contenders(exchanges, {launched.name: program.turn(exchanges)}, {launched.name: program.lead},
                         notes=lambda: _notes(program, exchanges, launched.ranks))


def _notes(program: ranks_sides.Ranks, exchanges: int, ranks: int) -> Dict[str, str]:
    of_one = {name: median([turn[name] for turn in program.turns]) / exchanges for name in program.turns[0]}
    return {"processor time of a rank": "{:.0f} us".format(1e6 * of_one["processor_s"] / ranks),
            "a rank sends": "{:.3f} MB in {:.0f} packets".format(1e-6 * of_one["sent_bytes"], of_one["packets"]),
            "TCP connections of a rank": "{:.0f}".format(program.connections)}


CASE = Case("exchange", "exchange", "launched_ranks", tuple(VARIANTS), prepare,
            "one exchange of bytes between ranks, by Horovod's alltoall", warm_up=1)
