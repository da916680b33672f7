"""Names of Rec SDK that ascpipe does not provide, with their alternatives."""
from typing import Dict, Tuple

from ascpipe.import_hints import ANY

_SAVER = "tf.compat.v1.train.Saver saves and restores tables with the variables"
_TABLES = "create_table makes tables of every kind, and BaseSparseEmbedding is their class"

#: (module, name): alternative
MISSING: Dict[Tuple[str, str], str] = {
    ("mx_rec.core.embedding", "ExternalStorageSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "HBMDynamicSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "HBMSparseEmbedding"): _TABLES,
    ("mx_rec.core.embedding", "MergeableSparseEmbedding"): _TABLES,
    ("mx_rec.optimizers.ftrl", "create_hash_optimizer_by_address"): "there is none; use adagrad_by_addr",
    ("mx_rec.optimizers.ftrl_t", ANY): "use mx_rec.optimizers.ftrl",
    ("mx_rec.optimizers.ftrl_t_dense", ANY): "use tf.compat.v1.train.FtrlOptimizer for dense variables",
    ("mx_rec.optimizers.momentum", ANY): "use mx_rec.optimizers.lazy_adam or mx_rec.optimizers.gradient_descent",
    ("mx_rec.util.initialize", "export_feature_spec"): "keep the FeatureSpec where you make it",
    ("mx_rec.util.initialize", "export_optimizer"): "keep the optimizer where you make it",
    ("mx_rec.util.initialize", "restore_host_data"): _SAVER,
    ("mx_rec.util.initialize", "save_host_data"): _SAVER,
    ("mx_rec.validator", ANY): "public functions check their arguments themselves, and raise ValueError",
}
