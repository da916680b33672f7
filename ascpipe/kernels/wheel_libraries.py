"""Makes the libraries that a wheel has: one for each level.

    python -m ascpipe.kernels.wheel_libraries FOLDER

What is there for the sources as they are is not made again; libraries of other sources are removed.
"""
import os
import sys

from ascpipe.kernels import linking
from ascpipe.layout.kernel_library import LEVELS, file_name


def main() -> None:
    """The last line of stderr says why it cannot be done."""
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    wanted = {file_name(level): level for level in LEVELS}
    for name in set(os.listdir(folder)) - set(wanted):
        os.unlink(os.path.join(folder, name))
    missing = [level for name, level in wanted.items() if not os.path.exists(os.path.join(folder, name))]
    if missing:
        sys.argv[1:] = [folder, *missing]
        linking.main()


if __name__ == "__main__":
    main()
