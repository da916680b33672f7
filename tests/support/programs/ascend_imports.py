"""Imports what programs for Ascend servers import, from everywhere they do; run it by ``ascpipe run``."""
import json
import warnings

warnings.simplefilter("ignore")

import npu_device
import tensorflow
from npu_bridge.estimator import npu_ops as ops_of_the_bridge
from npu_bridge.estimator.npu import npu_plugin as plugin_of_the_bridge
from npu_bridge.estimator.npu import util as util_of_the_bridge
from npu_bridge.estimator.npu.npu_config import DumpConfig as DumpOfTheBridge
from npu_bridge.estimator.npu.npu_config import NPURunConfig as ConfigOfTheBridge
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator as EstimatorOfTheBridge
from npu_bridge.estimator.npu.npu_optimizer import npu_distributed_optimizer_wrapper as wrapper
from npu_bridge.hccl import hccl_ops as collectives_of_the_bridge
from npu_bridge.hccl.hccl_ops import allreduce
from npu_bridge.npu_init import *
from npu_device.compat.v1.estimator.npu.npu_config import NPURunConfig as ConfigOfTheDevice
from npu_device.compat.v1.estimator.npu.npu_estimator import NPUEstimator as EstimatorOfTheDevice
from npu_device.compat.v1.hccl import hccl_ops as collectives_of_the_device
from npu_device.compat.v1.npu_init import DumpConfig as DumpOfTheDevice
from npu_device.compat.v1.npu_init import NPUEstimator as StarOfTheDevice
from npu_device.compat.v1.npu_init import NPURunConfig as ConfigOfTheStar
from npu_device.compat.v1.npu_init import npu_hooks_append as hooks_of_the_device
from rec_sdk_common.communication.hccl.hccl_info import get_device_id, get_local_rank_size, get_rank_id, get_rank_size
from rec_sdk_common.log import logger
from rec_sdk_common.util.tf_adapter import hccl_ops as collectives_of_the_sdk
from rec_sdk_common.util.tf_adapter import npu_ops as ops_of_the_sdk
from tf_adapter import NPUEstimator as EstimatorOfTheAdapter
from tf_adapter import NPURunConfig as ConfigOfTheAdapter

# At import time, before `init`.
RANK = [get_rank_id(), get_rank_size(), get_device_id(), get_local_rank_size()]

npu_device.compat.enable_v1()
for taken in (npu_plugin, util.set_iteration_per_loop, hccl_ops.allreduce, npu_hooks_append, DumpConfig,
              npu_config_proto, npu_ops.dropout, NPURunConfig):
    if taken is None:
        raise SystemExit("a name of the star import is nothing")

print(json.dumps({"rank": RANK, "same": (
    NPUEstimator is EstimatorOfTheBridge is EstimatorOfTheDevice is StarOfTheDevice is EstimatorOfTheAdapter
    and NPURunConfig is ConfigOfTheBridge is ConfigOfTheDevice is ConfigOfTheAdapter is ConfigOfTheStar
    and DumpConfig is DumpOfTheBridge is DumpOfTheDevice and npu_hooks_append is hooks_of_the_device
    and hccl_ops is collectives_of_the_sdk and npu_ops is ops_of_the_sdk
    and tf is tensorflow and util is util_of_the_bridge and allreduce is hccl_ops.allreduce)}))
