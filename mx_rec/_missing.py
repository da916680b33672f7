"""Names that ascpipe does not provide, each with what to use instead."""
from typing import Dict, NoReturn, Tuple

#: (module, name): what to do.
MISSING: Dict[Tuple[str, str], str] = {
    ("mx_rec.util.initialize", "save_host_data"): "saving tables is not built yet",
    ("mx_rec.util.initialize", "restore_host_data"): "restoring tables is not built yet",
    ("mx_rec.util.initialize", "export_feature_spec"): "keep the FeatureSpec where you make it",
    ("mx_rec.util.initialize", "export_optimizer"): "keep the optimizer where you make it",
    ("mx_rec.util.initialize", "export_table_instances"): "use get_table_instance_by_name",
    ("mx_rec.util.initialize", "insert_optimizer"): "slot variables are found by themselves",
    ("mx_rec.util.initialize", "set_ascend_table_name_must_contain"): "merging tables is not built yet",
    ("mx_rec.optimizers.ftrl", "create_hash_optimizer_by_address"): "the incumbent has none either",
}


def refuse(module: str, name: str) -> NoReturn:
    """Say what to use instead of a name that ascpipe does not provide.

    Raises:
        ImportError: for a name that the incumbent has, so that ``from m import x`` shows the text.
        AttributeError: for any other; the import system itself asks for ``__path__``.
    """
    hint = MISSING.get((module, name))
    if hint is None:
        raise AttributeError("module {!r} has no attribute {!r}".format(module, name))
    raise ImportError("{}.{} is not provided by ascpipe: {}".format(module, name, hint))
