"""Heat map of the case ``cells``: the step time of plain TensorFlow as a multiple of ours, by size."""
import math
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from bench.cases.cells import CASE, CELLS, DIMS, ROWS, TABLES, TIERS
from bench.usual_model import PLAIN
from bench.usual_sides import NAMES

Record = Dict[str, Any]

_ALIKE = 2.0  #: ratio with the full colour; its inverse has the other full colour
_PANEL_INCHES = (5.0, 3.2)


class Heat(NamedTuple):
    """Result of one cell.

    Attributes:
        ratio: plain TensorFlow's time as a multiple of ours.
        ours: seconds of our step.
        falls_short: whether the goal of the cell is missed.
    """

    ratio: float
    ours: float
    falls_short: bool


class Panel(NamedTuple):
    """Cells of one dim and tier. ``heats`` has a row for each number of tables and a column for each number of rows. A
    cell that was not measured is None.
    """

    dim: int
    tier: str
    heats: List[List[Optional[Heat]]]


def of_cells(written: Sequence[Record]) -> List[Record]:
    """Return the records of ``cells``."""
    return [one for one in written if one["case"] == CASE.name]


def panels(written: Sequence[Record]) -> List[Panel]:
    """Return the panels of both tiers for each measured dim, in the order of the dims."""
    found = {CELLS[one["params"]["variant"]]: Heat(
        one["ratio"][NAMES[PLAIN]], one["ours"], not all(goal["met"] for goal in one["goal"]))
        for one in of_cells(written)}
    dims = [dim for dim in DIMS if any(cell.dim == dim for cell in found)]
    at = {(cell.dim, cell.tier, cell.tables, cell.rows): heat for cell, heat in found.items()}
    return [Panel(dim, tier, [[at.get((dim, tier, tables, rows)) for rows in ROWS] for tables in TABLES])
            for dim in dims for tier in TIERS]


def markdown(written: Sequence[Record]) -> List[str]:
    """Return a summary line, and a table for each dim. The tiers are next to each other in a table."""
    found = panels(written)
    lines = [_summary(written)]
    for panel, other in zip(found[::len(TIERS)], found[1::len(TIERS)]):
        columns = ["{}, {:,}".format(one.tier, rows) for one in (panel, other) for rows in ROWS]
        lines += ["", "Dim {}; tables down, rows of a batch across:".format(panel.dim), "",
                  "| tables | {} |".format(" | ".join(columns)), "|{}".format("---|" * (1 + len(columns)))]
        lines += ["| {} | {} |".format(tables, " | ".join(map(_text, [*left, *right])))
                  for tables, left, right in zip(TABLES, panel.heats, other.heats)]
    return lines


def draw(figure: Any, written: Sequence[Record]) -> None:
    """Draw all panels on a figure of matplotlib. The two panels of a dim are next to each other."""
    found = panels(written)
    down = len(found) // len(TIERS)
    figure.set_size_inches(_PANEL_INCHES[0] * len(TIERS), _PANEL_INCHES[1] * down)
    figure.subplots_adjust(hspace=.45)
    for axes, panel in zip(figure.subplots(down, len(TIERS), squeeze=False).flat, found):
        axes.imshow([[warmth(heat) for heat in row] for row in panel.heats], cmap="RdBu", vmin=-1, vmax=1,
                    aspect="auto")
        for down_to, across_to, heat in _places(panel):
            axes.text(across_to, down_to, "{:.2f}".format(heat.ratio), ha="center", va="center",
                      color="white" if abs(warmth(heat)) > .6 else "black",
                      fontweight="bold" if heat.falls_short else "normal")
        axes.set_xticks(range(len(ROWS)))
        axes.set_xticklabels(["{:,}".format(rows) for rows in ROWS])
        axes.set_yticks(range(len(TABLES)))
        axes.set_yticklabels([str(tables) for tables in TABLES])
        axes.set_xlabel("rows of a batch")
        axes.set_ylabel("tables")
        axes.set_title("dim {}, {}: x plain TensorFlow".format(panel.dim, panel.tier), fontsize=10)


def warmth(heat: Optional[Heat]) -> float:
    """Return the colour from -1 (slower than plain TensorFlow) to 1 (faster). 0 is equal speed, and the scale
    is logarithmic.
    """
    return 0.0 if heat is None else max(-1.0, min(1.0, math.log(heat.ratio) / math.log(_ALIKE)))


def _places(panel: Panel) -> Iterator[Tuple[int, int, Heat]]:
    for down, row in enumerate(panel.heats):
        for across, heat in enumerate(row):
            if heat is not None:
                yield down, across, heat


def _text(heat: Optional[Heat]) -> str:
    if heat is None:
        return ""
    ratio = "{:.2f}".format(heat.ratio)
    return "**{}**".format(ratio) if heat.falls_short else ratio


def _summary(written: Sequence[Record]) -> str:
    heats = {one["params"]["variant"]: one["ratio"][NAMES[PLAIN]] for one in of_cells(written)}
    least = min(heats, key=lambda variant: heats[variant])
    return ("Plain TensorFlow's time as a multiple of ours. {} of {} cells are at 1 or more; the least is {:.2f}, "
            "`{}`.{}").format(
                sum(ratio >= 1 for ratio in heats.values()), len(heats), heats[least], least,
                "" if len(heats) == len(CELLS) else " {} were not measured.".format(len(CELLS) - len(heats)))
