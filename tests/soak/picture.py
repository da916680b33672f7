"""Draws the samples of a soak: `python -m tests.soak.picture SAMPLES.jsonl PICTURE.png`."""
import sys
from typing import Any, Dict, List, Sequence

from bench.plots import draw_to
from tests.soak import samples
from tests.soak.samples import MEASURED, Sample

LABELS = {"anon_kib": "anonymous memory, MiB", "shmem_kib": "shared memory, MiB", "fds": "descriptors",
          "maps": "mappings", "threads": "threads"}
HOW_TO_GET_MATPLOTLIB = "no picture: matplotlib is not installed; `make setup` installs it"


def draw(taken: Sequence[Sample], path: str) -> str:
    """A panel for each thing that was measured, a line for each role. Returns a sentence for people.

    Args:
        taken: by time.
        path: of the picture, png or svg.
    """
    try:
        draw_to(lambda figure: _panels(figure, taken), path)
    except ImportError:
        return HOW_TO_GET_MATPLOTLIB
    return "picture: {}".format(path)


def _panels(figure: Any, taken: Sequence[Sample]) -> None:
    by_role: Dict[str, List[Sample]] = {}
    for sample in taken:
        by_role.setdefault(sample.role, []).append(sample)
    figure.set_size_inches(9, 14)
    for axes, name in zip(figure.subplots(len(MEASURED), 1, sharex=True), MEASURED):
        unit = 1024 if name.endswith("_kib") else 1
        for role, of_role in sorted(by_role.items()):
            axes.plot([one.at_s for one in of_role], [getattr(one, name) / unit for one in of_role], label=role,
                      linewidth=.8)
        axes.set_yscale("log" if name == "anon_kib" else "linear")
        axes.set_ylabel(LABELS[name])
    axes.set_xlabel("seconds of training")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 5))


if __name__ == "__main__":
    sys.stdout.write(draw(samples.read(sys.argv[1]), sys.argv[2]) + "\n")
