"""A patch of the sources, which is applied in memory.

To change the patch, or to let it fit sources that have changed, in a tree without other changes:

    patch -p1 < tests/tf/new_lookup/weighted_average.patch    # make by hand the changes that it refuses
    git add -N ascpipe tfops && git diff -U2 ascpipe tfops > new.patch
    git reset -q && git checkout ascpipe tfops && git clean -fq ascpipe tfops
    mv new.patch tests/tf/new_lookup/weighted_average.patch
"""
from pathlib import Path
from typing import Dict, List, NamedTuple

PATCH = Path(__file__).resolve().parent / "weighted_average.patch"


class DoesNotApplyError(Exception):
    """Lines that the patch changes are not in their file, or more than once."""


class Hunk(NamedTuple):
    """Lines that change, with the lines around them.

    Attributes:
        file: path from the top of the tree.
        before: empty if the file is new.
        after: what takes the place of ``before``.
        added: how many lines are new or changed.
    """

    file: str
    before: str
    after: str
    added: int


def hunks() -> List[Hunk]:
    """What the patch changes, in its order."""
    found: List[Hunk] = []
    file = ""
    for line in PATCH.read_text().splitlines(keepends=True):
        mark, rest = line[0], line[1:]
        if line.startswith("+++ "):
            file = line.rstrip("\n").partition("/")[2]
        elif line.startswith("@@"):
            found.append(Hunk(file, "", "", 0))
        elif mark in " -+" and not line.startswith("--- "):
            _, before, after, added = found[-1]
            found[-1] = Hunk(file, before if mark == "+" else before + rest, after if mark == "-" else after + rest,
                             added + (mark == "+"))
    return found


def applied(root: Path) -> Dict[str, str]:
    """The text of each file that the patch changes or adds, with the changes.

    Args:
        root: the top of the tree, in which nothing is changed.

    Raises:
        DoesNotApplyError: a file has changed where the patch changes it.
    """
    texts: Dict[str, str] = {}
    for hunk in hunks():
        if not hunk.before:
            _require(hunk, not (root / hunk.file).exists())
            texts[hunk.file] = hunk.after
            continue
        text = "\n" + texts.get(hunk.file, (root / hunk.file).read_text())
        _require(hunk, text.count("\n" + hunk.before) == 1)
        texts[hunk.file] = text.replace("\n" + hunk.before, "\n" + hunk.after)[1:]
    return texts


def _require(hunk: Hunk, fits: bool) -> None:
    if not fits:
        raise DoesNotApplyError("{}: {}. {} says how to renew the patch:\n{}".format(
            hunk.file, "these lines are not there once" if hunk.before else "the patch adds it, and it is there",
            Path(__file__).name, hunk.before))
