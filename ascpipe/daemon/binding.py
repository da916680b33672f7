"""Assigns processors to workers (CPU affinity)."""
import os
from typing import Dict

from ascpipe.config import Settings, processors
from ascpipe.daemon.lifecycle import KEY, TABLE, Worker
from ascpipe.errors import ConfigError


def bound_processors(settings: Settings) -> Dict[Worker, int]:
    """Processor of each worker that is bound: those of ``bind_cpu`` are dealt out, key workers first.

    Raises:
        ConfigError: one of them is not ours to run on.
    """
    wanted, allowed = processors(settings.bind_cpu), os.sched_getaffinity(0)
    for processor in wanted:
        if processor not in allowed:
            raise ConfigError("bind_cpu", "the settings", settings.bind_cpu,
                              "processor {} is not one that this process may run on: {}".format(
                                  processor, ",".join(map(str, sorted(allowed)))))
    workers = [Worker(KEY, index) for index in range(settings.workers)]
    workers += [Worker(TABLE, index) for index in range(settings.table_workers)]
    return {worker: wanted[place % len(wanted)] for place, worker in enumerate(workers)} if wanted else {}
