"""Exit codes of processes that are forked and end as the interpreter does."""
import sys


def exit_code(ended: SystemExit) -> int:
    """Return the exit code that the interpreter has for ``ended``. Print its text if it has one."""
    if ended.code is None or isinstance(ended.code, int):
        return (ended.code or 0) & 255
    sys.stderr.write("{}\n".format(ended.code))
    return 1
