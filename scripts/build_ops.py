"""Compile the ops of this tree, which need not be installed. The arguments are the arguments of ascpipe.tfops.build.

Set-up installs the tree while it builds the ops. It sets SET_UP_BUILDS_OPS, so that this script compiles nothing then.
"""
import importlib
import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Return the exit code. It is 0, or 1 with the reason on stderr."""
    if os.environ.get("SET_UP_BUILDS_OPS"):
        return 0
    sys.path.insert(0, str(ROOT))
    # tfops/ at the top of the tree is the package ascpipe.tfops.
    spec = importlib.util.spec_from_file_location(
        "ascpipe.tfops", str(ROOT / "tfops/__init__.py"), submodule_search_locations=[str(ROOT / "tfops")])
    if spec is None:
        raise ImportError("{} cannot be imported".format(ROOT / "tfops"))
    sys.modules["ascpipe.tfops"] = importlib.util.module_from_spec(spec)
    return importlib.import_module("ascpipe.tfops.build").main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
