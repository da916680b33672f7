"""One case a file; each has a ``CASE``.  A new one joins ``MODULES``.

Importing a case loads neither TensorFlow nor numba: only preparing a variant does.
"""

MODULES = ("dedup", "handoff", "pipeline", "embedding_ops", "swap", "train", "status", "checkpoint", "serving")
