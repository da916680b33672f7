"""Functions that replace names of ``ascpipe.tf`` by names of ``mx_rec`` in error messages, for programs that use
``mx_rec``.

The messages in the code contain the names of ``ascpipe.tf``, for example ``asc.start()``.
"""
import re
import sys
from typing import Optional

#: name of a function or class in ``ascpipe.tf`` -> its name in ``mx_rec``
REC_SDK = {
    "EvictHook": "EvictHook",
    "FeatureSpec": "FeatureSpec",
    "GraphModifierHook": "GraphModifierHook",
    "LookupSubgraphSlicerHook": "LookupSubgraphSlicerHook",
    "OrphanLookupKeySlicerHook": "OrphanLookupKeySlicerHook",
    "create_table": "create_table",
    "init": "init",
    "insert_function": "get_asc_insert_func",
    "shutdown": "terminate_config_initializer",
    "sparse_lookup": "sparse_lookup",
    "start()": "start_asc_pipeline() (modify_graph_and_start_emb_cache() if lookups take tensors)",
    "trigger_evict": "trigger_evict",
}

_NAME = re.compile(r"\basc\.(start\(\)|[A-Za-z_]+)")
_uses_rec_sdk: Optional[bool] = None  #: None before ``init``


def use(rec_sdk: bool) -> None:
    """Make error messages use the names of ``mx_rec`` if ``rec_sdk`` is true, and the names of ``ascpipe.tf``
    otherwise. ``init`` calls this function.
    """
    global _uses_rec_sdk
    _uses_rec_sdk = rec_sdk


def in_names_of_program(text: str) -> str:
    """Return ``text`` with the function names of the API that the program uses.

    Before ``init``, the function assumes that a program that has imported ``mx_rec`` uses the names of
    ``mx_rec``. A function that ``mx_rec`` does not have keeps its name, with the prefix ``ascpipe.tf.``.
    """
    rec_sdk = "mx_rec" in sys.modules if _uses_rec_sdk is None else _uses_rec_sdk
    if not rec_sdk:
        return text
    return _NAME.sub(lambda found: REC_SDK.get(found.group(1), "ascpipe.tf." + found.group(1)), text)
