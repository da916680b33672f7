"""Cases of the benchmark, one per file. Each file has a ``CASE``. New cases must be added to ``MODULES``.

The import of a case loads neither TensorFlow nor numba. They are loaded when a variant is prepared.

In a case, ascpipe and all peers must do the same work. A case fetches a value of each output, computes gradients with
``GATE_GRAPH``, and runs a few steps before timing. It passes large sizes through ``workloads.sized``, so that a run
with ``--small`` takes seconds. It starts processes with ``Program`` (``bench/programs.py``), which has timeouts.
"""

MODULES = ("dedup", "index", "pipeline", "worker_cpu", "embedding_ops", "combiner", "swap", "usual",
           "usual_cpu", "usual_large", "usual_peers", "columns", "input", "data", "cells", "ssd", "train", "train_cpu",
           "ranks", "ranks_cpu", "ranks_late", "exchange", "scale", "startup", "idle", "status", "metrics", "dashboard",
           "page", "checkpoint", "rows", "serving")

#: slow cases and variants, which are measured only if a pattern names them, as in `make bench-usual`
APART = ("usual", "usual_cpu", "usual_large", "usual_peers", "columns", "input", "data", "startup/columns", "cells",
         "ssd", "ranks", "ranks_cpu", "ranks_late", "exchange", "dashboard", "page")
