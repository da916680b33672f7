"""Names that ascpipe does not provide, each with what to use instead."""
from typing import Dict, NoReturn, Tuple

_SAVER = "tf.compat.v1.train.Saver saves and restores tables with the variables"
_TABLES = "create_table makes tables of every kind"

ANY = "*"  #: every name of a module

#: (module, name): what to do.
MISSING: Dict[Tuple[str, str], str] = {
    ("mx_rec.core.embedding", "BaseSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "ExternalStorageSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "HBMDynamicSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "HBMSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "MergeableSparseEmbedding"): _TABLES,
    ("mx_rec.optimizers.ftrl", "create_hash_optimizer_by_address"): "the incumbent has none either",
    ("mx_rec.optimizers.ftrl_t", ANY): "use mx_rec.optimizers.ftrl",
    ("mx_rec.optimizers.ftrl_t_dense", ANY): "use tf.compat.v1.train.FtrlOptimizer for dense variables",
    ("mx_rec.optimizers.momentum", ANY): "use mx_rec.optimizers.lazy_adam, or gradient_descent",
    ("mx_rec.util.initialize", "export_feature_spec"): "keep the FeatureSpec where you make it",
    ("mx_rec.util.initialize", "export_optimizer"): "keep the optimizer where you make it",
    ("mx_rec.util.initialize", "restore_host_data"): _SAVER,
    ("mx_rec.util.initialize", "save_host_data"): _SAVER,
    ("mx_rec.validator", ANY): "public functions check their arguments themselves, and raise ValueError",
}


def refuse(module: str, name: str) -> NoReturn:
    """Say what to use instead of a name that ascpipe does not provide.

    Raises:
        ImportError: for a name that the incumbent has, so that ``from m import x`` shows the text.
        AttributeError: for any other; the import system itself asks for ``__path__``.
    """
    hint = MISSING.get((module, name))
    if hint is None and not name.startswith("__"):
        hint = MISSING.get((module, ANY))
    if hint is None:
        raise AttributeError("module {!r} has no attribute {!r}".format(module, name))
    raise ImportError("{}.{} is not provided by ascpipe: {}".format(module, name, hint))
