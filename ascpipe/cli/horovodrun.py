"""Horovod's launcher as a program: ``horovodrun``, wherever its script was installed.

    python horovodrun.py ARGUMENTS OF HOROVODRUN...

The working folder is not on its path, as it would be by ``python -m``. What it raises when a rank has failed is
printed without the stack of the launcher, in which nothing failed.
"""
import sys


def main() -> None:
    """Returns where all ranks ended well."""
    del sys.path[0]  # this folder
    from horovod.runner.launch import run_commandline

    try:
        run_commandline()
    except RuntimeError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
