"""Program that builds the kernel libraries of a wheel, one for each level of x86-64.

::

    python -m ascpipe.kernels.wheel_libraries FOLDER

A library in FOLDER is kept if it was built from the current sources. Otherwise, it is removed.
"""
import os
import sys

from ascpipe.kernels import linking
from ascpipe.layout.kernel_library import LEVELS, file_name


def main() -> None:
    """Build missing libraries. If a build fails, the last line of stderr contains the reason."""
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    wanted = {file_name(level): level for level in LEVELS}
    for name in set(os.listdir(folder)) - set(wanted):
        os.unlink(os.path.join(folder, name))
    missing = [level for name, level in wanted.items() if not os.path.exists(os.path.join(folder, name))]
    if missing:
        linking.main([folder, *missing])


if __name__ == "__main__":
    main()
