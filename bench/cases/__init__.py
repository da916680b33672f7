"""One case a file; each has a ``CASE``. A new one joins ``MODULES``.

Importing a case loads neither TensorFlow nor numba: only preparing a variant does.
"""

MODULES = ("dedup", "index", "pipeline", "worker_cpu", "embedding_ops", "combiner", "swap", "usual",
           "usual_cpu", "columns", "cells", "ssd", "train", "train_cpu", "ranks", "ranks_cpu", "ranks_late", "exchange",
           "scale", "startup", "idle", "status", "metrics", "checkpoint", "serving")

#: cases, and variants of others, that take long: measured where a pattern names them, as `make bench-usual` does
APART = ("usual", "usual_cpu", "columns", "startup/columns", "cells", "ssd", "ranks", "ranks_cpu", "ranks_late",
         "exchange")
