"""Program that trains the model of ``ranks`` and prints the duration of a step. A launcher runs
``far_ranks_program.py STEPS``.
"""
import glob
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any, Dict, List

from ascpipe import names
from bench.ranks_program import OURS, side_of
from bench.ranks_sides import LEAD


def main(arguments: List[str]) -> None:
    """Train the model. Only rank 0 prints."""
    with side_of(OURS) as step:
        for _ in range(LEAD):
            step()
        before = _exchanges()
        times = []
        for _ in range(int(arguments[0])):
            began = time.perf_counter()
            step()
            times.append(1e3 * (time.perf_counter() - began))
        after = _exchanges()
    if os.environ["HOROVOD_RANK"] == "0":
        made = after["exchanges"] - before["exchanges"]
        sent = after["bytes_sent"] - before["bytes_sent"]
        print("a step: {:.1f} ms, the median of {}; {:.2f} exchanges of {:.1f} ms, {:.2f} MB sent in them".format(
            statistics.median(times), len(times), made / len(times), 1e3 * (after["time_s"] - before["time_s"]) / made,
            sent / len(times) / 1e6), flush=True)


def _exchanges() -> Dict[str, Any]:
    """Return the exchanges in the status of this process's daemon."""
    found = glob.glob(os.path.join(names.base_dir(), "private-{}-*".format(os.getpid())))
    told = subprocess.run([sys.executable, "-m", "ascpipe", "status", "--json", "--name", os.path.basename(found[0])],
                          check=True, stdout=subprocess.PIPE)
    exchanges: Dict[str, Any] = json.loads(told.stdout)["exchanges"]
    return exchanges


if __name__ == "__main__":
    main(sys.argv[1:])
