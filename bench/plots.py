"""Plots of measurements: `python -m bench.plots --help`.

Each kind of data in the given files becomes one picture:

* ids per second by stage, training steps, the heat map of cells and scale curves, from `python -m bench --json`
* misses by window, from `python -m bench cache --json`
* parts of a step, from traces of TensorFlow's timeline
"""
import argparse
import os
import re
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from bench import heat_map, records

_MOST_OPS = 10  #: number of ops with names; all other ops are one part
_OURS_COLOUR = "#1f5fa8"
_PEER_COLOURS = ("#b0b0b0", "#d9b26f", "#8fb08f")
#: unit of work -> number of its ids; cases with other units are not stages
_IDS_OF = {"id": 1, "key": 1}

Record = Dict[str, Any]


def main(arguments: Optional[List[str]] = None) -> int:
    """Return the exit code: 0 = done, 2 = wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m bench.plots", description="Draw plots of measurements.")
    parser.add_argument("--results", metavar="FILE", help="output of `python -m bench --json`")
    parser.add_argument("--cache", metavar="FILE", nargs="+", default=[],
                        help="outputs of `python -m bench cache --json`, one per window")
    parser.add_argument("--trace", metavar="NAME=FILE", nargs="+", default=[],
                        help="traces of one step each, such as plain=plain.json ours=ours.json")
    parser.add_argument("--output", metavar="FOLDER", default=".", help="folder for the pictures")
    parser.add_argument("--format", choices=("png", "svg"), default="png")
    options = parser.parse_args(arguments)
    try:
        written = records.load(options.results) if options.results else []
        pictures = pictures_of(written, [records.read_map(path) for path in options.cache],
                               [(name, records.read_map(path)) for name, _, path in (pair.partition("=")
                                                                         for pair in options.trace)])
    except (ValueError, KeyError, TypeError) as error:
        parser.error("{}".format(error if isinstance(error, ValueError) else "a file lacks {}".format(error)))
    if not pictures:
        parser.error("nothing to draw: give --results, --cache or --trace")
    os.makedirs(options.output, exist_ok=True)
    for name, draw in pictures.items():
        path = os.path.join(options.output, "{}.{}".format(name, options.format))
        draw_to(draw, path)
        print(path)
    return 0


def pictures_of(written: Sequence[Record], caches: Sequence[Dict[str, Any]],
                traces: Sequence[Tuple[str, Dict[str, Any]]]) -> Dict[str, Callable[[Any], None]]:
    """Return the possible pictures: the name of a picture -> function that draws the picture on a figure of
    matplotlib.
    """
    stages = [one for one in written if one["unit"].rsplit(" per ", 1)[-1] in _IDS_OF]
    steps = [one for one in written if one["case"] in ("usual", "train")]
    scales = [one for one in written if one["case"] == "scale"]
    pictures: Dict[str, Callable[[Any], None]] = {}
    if stages:
        pictures["stages"] = lambda figure: _bars(
            figure.subplots(), stages, lambda seconds: 1e-6 / seconds, "million ids per second")
    if steps:
        pictures["steps"] = lambda figure: _bars(
            figure.subplots(), steps, lambda seconds: 1e3 * seconds, "ms per training step")
    if heat_map.of_cells(written):
        pictures["cells"] = lambda figure: heat_map.draw(figure, written)
    if scales:
        pictures["scale"] = lambda figure: _scale(figure.subplots(), scales)
    if caches:
        pictures["misses"] = lambda figure: _misses(
            figure.subplots(), sorted(caches, key=lambda one: int(one["window"])))
    if traces:
        parts = [(name, parts_of_step(trace)) for name, trace in traces]
        pictures["breakdown"] = lambda figure: _breakdown(figure.subplots(), parts)
    return pictures


def parts_of_step(trace: Dict[str, Any]) -> Dict[str, float]:
    """Return a dict from kind of op to milliseconds of a trace, the largest first. Spans of workers are ignored."""
    sums: Dict[str, float] = {}
    for event in trace["traceEvents"]:
        if event.get("ph") == "X" and event.get("cat") == "Op":
            sums[event["name"]] = sums.get(event["name"], 0.0) + event["dur"] / 1000
    named = dict(sorted(sums.items(), key=lambda part: -part[1])[:_MOST_OPS])
    rest = sum(sums.values()) - sum(named.values())
    return {**named, "others": rest} if rest > 0 else named


def _bars(axes: Any, written: Sequence[Record], value: Callable[[float], float], label: str) -> None:
    names = []
    at = 0.0
    for one in written:
        contenders = [(one["params"]["contender"], one["ours"], _OURS_COLOUR)]
        contenders += [(peer, seconds, _PEER_COLOURS[number % len(_PEER_COLOURS)])
                       for number, (peer, seconds) in enumerate(one["peers"].items())]
        for contender, seconds, colour in contenders:
            axes.barh(at, value(seconds), color=colour)
            axes.text(value(seconds), at, " {:.3g}".format(value(seconds)), va="center", fontsize=7)
            names.append((at, "{}: {}".format(records.name_of(one), contender)))
            at += 1
        at += .6
    axes.set_yticks([place for place, _ in names])
    axes.set_yticklabels([name for _, name in names], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(label)


def _scale(axes: Any, written: Sequence[Record]) -> None:
    for one in written:
        timed = {one["params"]["contender"]: one["ours"], **one["peers"]}
        sizes = [(int(re.sub(r"\D", "", name)), 1e3 * seconds) for name, seconds in timed.items()]
        axes.plot(*zip(*sorted(sizes)), marker="o", label="by {}".format(
            "rows of the table" if one["params"]["variant"] == "rows" else "rows on the device"))
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("rows")
    axes.set_ylabel("ms to plan a batch")
    axes.legend()


def _misses(axes: Any, caches: Sequence[Dict[str, Any]]) -> None:
    windows = [one["window"] for one in caches]
    for name, label in (("misses", "ascpipe"), ("misses_lru", "LRU"), ("misses_lfu", "LFU, half-life 64")):
        axes.plot(windows, [one[name] / one["misses_min"] for one in caches], marker="o", label=label)
    axes.axhline(1, color="black", linewidth=.8, label="Belady's optimum")
    axes.set_xlabel("batches known ahead (window)")
    axes.set_ylabel("misses, as a multiple of Belady's optimum")
    axes.legend()


def _breakdown(axes: Any, steps: Sequence[Tuple[str, Dict[str, float]]]) -> None:
    from matplotlib import cm

    kinds = list(dict.fromkeys(kind for _, parts in steps for kind in parts))
    for at, (_, parts) in enumerate(steps):
        left = 0.0
        for kind, spent in parts.items():
            axes.barh(at, spent, left=left, color=cm.tab20(kinds.index(kind) % 20))
            left += spent
    for kind in kinds:
        axes.barh(0, 0, color=cm.tab20(kinds.index(kind) % 20), label=kind)
    axes.set_yticks(range(len(steps)))
    axes.set_yticklabels([name for name, _ in steps])
    axes.set_xlabel("ms of ops in a step, all threads together")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, .5))


def draw_to(draw: Callable[[Any], None], path: str, size: Tuple[float, float] = (9, 6)) -> None:
    """Write a picture into a file. The same drawing results in the same bytes.

    Args:
        draw: function that draws the picture on a figure of matplotlib.
        path: path of the png or svg file.
        size: width and height in inches.

    Raises:
        ImportError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    # Text is not converted to paths. Names in the file are reproducible, and the file has no date.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "ascpipe"}):
        figure = pyplot.figure(figsize=size)
        try:
            draw(figure)
            metadata = {"Date": None} if path.endswith(".svg") else {}
            figure.savefig(path, dpi=120, bbox_inches="tight", metadata=metadata)
        finally:
            pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
