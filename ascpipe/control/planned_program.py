"""Function that writes a program's table settings to a file and ends the program, for `ascpipe plan --program`."""
import json
import os
import sys
from typing import Any, Dict, Sequence

from ascpipe import names


def stop_if_planned(tables: Sequence[Dict[str, Any]], rings: int) -> None:
    """If `ascpipe plan` runs this program, write the sizes of the tables to a file and end the process with code 0.

    The process ends without ``finally`` blocks and exit handlers: the program might save its model in such a block, and
    no daemon or file of ascpipe exists yet.

    Args:
        tables: name and sizes of each table of the graph, for ``program_plan.planned``.
        rings: number of rings that the daemon would create.
    """
    path = os.environ.get(names.PLAN_VARIABLE)
    if not path:
        return
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        json.dump({"rings": rings, "tables": list(tables)}, file)
    os.replace(path + ".tmp", path)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
