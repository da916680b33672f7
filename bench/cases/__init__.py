"""Cases of the benchmark, one per file. Each file has a ``CASE``. New cases must be added to ``MODULES``.

The import of a case loads neither TensorFlow nor numba. They are loaded when a variant is prepared.
"""

MODULES = ("dedup", "index", "pipeline", "worker_cpu", "embedding_ops", "combiner", "swap", "usual",
           "usual_cpu", "columns", "input", "data", "cells", "ssd", "train", "train_cpu", "ranks", "ranks_cpu",
           "ranks_late", "exchange", "scale", "startup", "idle", "status", "metrics", "dashboard", "page", "checkpoint",
           "rows", "serving")

#: slow cases and variants, which are measured only if a pattern names them, as in `make bench-usual`
APART = ("usual", "usual_cpu", "columns", "input", "data", "startup/columns", "cells", "ssd", "ranks", "ranks_cpu",
         "ranks_late", "exchange", "dashboard", "page")
