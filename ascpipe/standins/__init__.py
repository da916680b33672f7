"""Stand-ins for packages of an Ascend server, and ``HOMES``, a dict: name in one of these packages -> location of the
implementation.

``ascpipe run`` appends this folder to ``sys.path`` of its program. If ``npu_bridge`` is installed, ``import
npu_bridge`` therefore imports the installed package. Submodules of the packages have no files. ``HOMES`` has an item
for each submodule, and ``ascpipe.import_hints`` creates the submodule when a program imports it.
"""
import sys
from typing import Dict

from ascpipe import import_hints
from ascpipe.import_hints import ANY

_ASCEND = "ascpipe.tf.incumbent.ascend."
_COLLECTIVES = "ascpipe.tf.incumbent.collectives"


def _of(home: str, *names: str) -> Dict[str, str]:
    return {name: "{}:{}".format(home, name) for name in names}


_PLUGIN = _ASCEND + "npu_plugin"
_OPS = _ASCEND + "npu_ops"
_ITERATIONS = _ASCEND + "iterations"
_CONFIG = _of(_ASCEND + "estimator", "DumpConfig", "NPURunConfig", "ProfilingConfig")
_ESTIMATOR = _of(_ASCEND + "estimator", "NPUEstimator", "NPUEstimatorSpec")
_OPTIMIZER = _of(_ASCEND + "estimator", "npu_distributed_optimizer_wrapper", "npu_tf_optimizer")
_HCCL = {"hccl_ops": _COLLECTIVES}
_LOGGER = {"logger": "ascpipe.program_log:program_logger()"}

_BRIDGE: Dict[str, Dict[str, str]] = {
    "estimator": {"npu_ops": _OPS},
    "estimator.npu": {"npu_plugin": _PLUGIN, "util": _ITERATIONS},
    "estimator.npu.npu_config": _CONFIG,
    "estimator.npu.npu_estimator": _ESTIMATOR,
    "estimator.npu.npu_optimizer": _OPTIMIZER,
    "estimator.npu.npu_plugin": _of(_PLUGIN, "npu_resource_init", "npu_resource_shutdown", "set_device_sat_mode"),
    "estimator.npu.util": _of(_ITERATIONS, "IterationPerLoop", "set_iteration_per_loop"),
    "estimator.npu_ops": _of(_OPS, "dropout"),
    "hccl": _HCCL,
    "hccl.hccl_ops": _of(_COLLECTIVES, "all_to_all_v", "all_to_all_v_c", "allgather", "allreduce", "broadcast",
                         "reduce_scatter"),
    "npu_init": {
        # a program may request deterministic ops before it imports mx_rec, or without importing mx_rec
        "_deterministic": _ASCEND + "deterministic:install()",
        **_CONFIG, **_ESTIMATOR, **_OPTIMIZER, **_HCCL,
        **_of(_ASCEND + "estimator", "npu_config_proto", "npu_hooks_append", "npu_run_config_init"),
        **_of("tensorflow.core.protobuf.rewriter_config_pb2", "RewriterConfig"),
        "npu_ops": _OPS, "npu_plugin": _PLUGIN, "tf": "tensorflow", "util": _ITERATIONS},
}

#: all modules of the stand-ins
HOMES: import_hints.Homes = {
    "mx_rec_common": {},
    "mx_rec_common.log": _LOGGER,
    "npu_bridge": {},
    **{"npu_bridge." + module: homes for module, homes in _BRIDGE.items()},
    "npu_device": {"compat": "npu_device.compat"},
    "npu_device.compat": {"enable_v1": "ascpipe.standins:_enable_v1"},
    "npu_device.compat.v1": {},
    **{"npu_device.compat.v1." + module: {ANY: "npu_bridge." + module} for module in _BRIDGE},
    "rec_sdk_common": {},
    "rec_sdk_common.communication": {},
    "rec_sdk_common.communication.hccl": {},
    "rec_sdk_common.communication.hccl.hccl_info": _of(
        "ascpipe.ranks", "get_device_id", "get_local_rank_size", "get_rank_id", "get_rank_size"),
    "rec_sdk_common.log": _LOGGER,
    "rec_sdk_common.util": {},
    "rec_sdk_common.util.tf_adapter": {ANY: "npu_bridge.npu_init"},
    "tf_adapter": {ANY: "npu_bridge.npu_init"},
}

_INSTEAD = {
    ("npu_bridge.estimator.npu.keras_to_npu", ANY):
        "Keras is not supported. Build the model with tf.layers, and train it with an Estimator or a session",
}


def stand_in(package: str) -> None:
    """Set the attributes of a stand-in package, and register its submodules for import."""
    below = {module: homes for module, homes in HOMES.items() if module.startswith(package + ".")}
    import_hints.install(package, _INSTEAD, below)
    import_hints.fill(sys.modules[package], HOMES[package])


def _enable_v1() -> None:
    """Do nothing. This function replaces ``npu_device.compat.enable_v1``."""
