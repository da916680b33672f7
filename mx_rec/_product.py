"""Refuses to be imported where another product's ``mx_rec`` is installed, too: which one a program means is not ours
to say."""
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Iterable, List

from ascpipe.errors import OtherProductError


def refuse_another(own: Iterable[str]) -> None:
    """Look for another package along the path of imports.

    Args:
        own: folders of the package that is imported.

    Raises:
        OtherProductError: there is one that is not of ascpipe.
    """
    for entry in _others(sys.path, {Path(folder).resolve() for folder in own}):
        raise OtherProductError(_distribution_of(entry), str(entry))


def _others(path: Iterable[str], own: Iterable[Path]) -> List[Path]:
    """Folders of packages of this name that have no file such as this one."""
    found = []
    for entry in path:
        spec = PathFinder.find_spec("mx_rec", [entry])
        if spec is None or spec.origin is None:  # none there, or a folder without a module
            continue
        folder = Path(spec.origin).resolve().parent
        if folder not in own and not (folder / Path(__file__).name).exists():
            found.append(folder)
    return found


def _distribution_of(folder: Path) -> str:
    """Name and version of the distribution that has the package, or its folder."""
    import importlib_metadata

    for distribution in importlib_metadata.distributions(path=[str(folder.parent)]):
        files = distribution.files or ()
        if any(file.parts[0] == folder.name for file in files) or (
                folder.name in (distribution.read_text("top_level.txt") or "").split()):
            return "{} {}".format(distribution.metadata["Name"], distribution.version)
    return str(folder)
