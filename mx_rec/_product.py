"""Refuse the import of ``mx_rec`` if another product's ``mx_rec`` is installed.

The program may need the other product's package.
"""
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Iterable, List

from ascpipe.errors import OtherProductError


def refuse_another(own: Iterable[str]) -> None:
    """Raise an error if ``sys.path`` contains another package named ``mx_rec``.

    Args:
        own: directories of the imported package.

    Raises:
        OtherProductError: another product's package was found.
    """
    for entry in _others(sys.path, {Path(folder).resolve() for folder in own}):
        raise OtherProductError(_distribution_of(entry), str(entry))


def _others(path: Iterable[str], own: Iterable[Path]) -> List[Path]:
    """Return the directories of other packages named ``mx_rec``.

    A package that contains a file with the same name as this file is a copy of ascpipe's package.
    """
    found = []
    for entry in path:
        spec = PathFinder.find_spec("mx_rec", [entry])
        if spec is None or spec.origin is None:  # no package, or a directory without ``__init__.py``
            continue
        folder = Path(spec.origin).resolve().parent
        if folder not in own and not (folder / Path(__file__).name).exists():
            found.append(folder)
    return found


def _distribution_of(folder: Path) -> str:
    import importlib_metadata

    for distribution in importlib_metadata.distributions(path=[str(folder.parent)]):
        files = distribution.files or ()
        if any(file.parts[0] == folder.name for file in files) or (
                folder.name in (distribution.read_text("top_level.txt") or "").split()):
            return "{} {}".format(distribution.metadata["Name"], distribution.version)
    return str(folder)
