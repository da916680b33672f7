"""Picture of the front page, drawn from the figures in docs/reference/benchmarks_results.md.

``python -m bench.recorded`` writes docs/pictures/usual_programs.svg. The same figures result in the same bytes.
"""
import re
import sys
from pathlib import Path
from typing import Any, List, NamedTuple

from bench import plots

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs/reference/benchmarks_results.md"
PICTURE = ROOT / "docs/pictures/usual_programs.svg"
_ROW = re.compile(r"^\| (?P<program>[^|]+) \| (?P<ours>[\d.]+ (?:ms|us))[^|]* \| (?P<ratio>[\d.]+) \|", re.M)
_FASTER = "#1f5fa8"
_SLOWER = "#c9783a"


class Program(NamedTuple):
    """Program in the picture.

    Attributes:
        name: tables x rows of a batch, and other properties.
        step: duration of our step, with its unit.
        ratio: plain TensorFlow's time as a multiple of ours.
    """

    name: str
    step: str
    ratio: float


def programs(text: str) -> List[Program]:
    """Return the programs in the first table of the results, in its order."""
    table = text.split("## Programs as users write them", 1)[1].split("\n### ", 1)[0]
    return [Program(row["program"], row["ours"], float(row["ratio"])) for row in _ROW.finditer(table)]


def draw(figure: Any, shown: List[Program]) -> None:
    """Draw a bar for each program, the fastest first. At 1 our speed equals plain TensorFlow's speed."""
    axes = figure.subplots()
    shown = sorted(shown, key=lambda one: -one.ratio)
    for at, one in enumerate(shown):
        axes.barh(at, one.ratio, color=_FASTER if one.ratio >= 1 else _SLOWER)
        axes.text(one.ratio, at, " {:.2f} x ({})".format(one.ratio, one.step), va="center")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_yticks(range(len(shown)))
    axes.set_yticklabels([one.name for one in shown])
    axes.invert_yaxis()
    axes.set_xlim(0, max(one.ratio for one in shown) + .6)
    axes.set_xlabel("speed of a training step, as a multiple of plain TensorFlow (1: as fast)")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def main() -> int:
    """Draw the picture, and return exit code 0."""
    shown = programs(RESULTS.read_text())
    PICTURE.parent.mkdir(exist_ok=True)
    plots.draw_to(lambda figure: draw(figure, shown), str(PICTURE), size=(9, 4.5))
    return 0


if __name__ == "__main__":
    sys.exit(main())
