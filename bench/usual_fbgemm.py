"""Model of ``bench/usual_model.py`` in PyTorch, with FBGEMM's tables. It runs in the environment of `make peers`.

The configuration is the fastest one without changes of PyTorch's settings: one fused module has all tables, its
backward pass updates the rows, and the ids of a batch are one tensor that exists before the training.
"""
import contextlib
import itertools
from typing import Any, Callable, Iterator, List, Tuple

import fbgemm_gpu  # noqa: F401  (it registers the ops)
import numpy as np
import torch
from fbgemm_gpu.split_embedding_configs import EmbOptimType
from fbgemm_gpu.split_table_batched_embeddings_ops_common import BoundsCheckMode, EmbeddingLocation, PoolingMode
from fbgemm_gpu.split_table_batched_embeddings_ops_training import ComputeDevice, SplitTableBatchedEmbeddingBagsCodegen

from bench import usual_model
from bench.usual_model import ACCUMULATOR, MEMORY, RANGE, RATE, Setting


@contextlib.contextmanager
def step_of(setting: Setting) -> Iterator[Callable[[], float]]:
    """Yield a training step, which returns its loss.

    Raises:
        ValueError: the setting has another optimizer than Adagrad, or batches of a file.
    """
    if setting.optimizer != "adagrad" or setting.source != MEMORY:
        raise ValueError("PyTorch trains with Adagrad and batches in memory here, not {!r} and {!r}".format(
            setting.optimizer, setting.source))
    torch.manual_seed(1)
    tables = _tables(setting)
    bounds = torch.arange(setting.tables * setting.rows + 1)  # one id per bag
    mlp = _mlp(setting.tables * setting.dim)
    optimizer = torch.optim.Adagrad(  # fused: 13 % less processor time per step of 4 tables and 64 rows
        mlp.parameters(), lr=RATE, initial_accumulator_value=ACCUMULATOR, eps=0, fused=True)
    loss_of = torch.nn.BCEWithLogitsLoss()
    batches = itertools.cycle(_batches(setting))

    def step() -> float:
        ids, label = next(batches)
        loss = loss_of(mlp(tables(ids, bounds)).squeeze(1), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.item())

    yield step


def _tables(setting: Setting) -> Any:
    """Return the fused tables. Invalid ids are not checked."""
    tables = SplitTableBatchedEmbeddingBagsCodegen(
        [(setting.keys, setting.dim, EmbeddingLocation.HOST, ComputeDevice.CPU)] * setting.tables,
        optimizer=EmbOptimType.EXACT_ADAGRAD, learning_rate=RATE, eps=0.0, pooling_mode=PoolingMode.SUM,
        bounds_check_mode=BoundsCheckMode.NONE)
    for rows, slots in zip(tables.split_embedding_weights(), tables.split_optimizer_states()):
        if setting.constant:
            rows.fill_(setting.constant)
        else:
            rows.uniform_(-RANGE, RANGE)
        slots[0].fill_(ACCUMULATOR)
    return tables


def _mlp(inputs: int) -> Any:
    layers: List[Any] = []
    for kernel in usual_model.kernels(inputs):
        layer = torch.nn.Linear(*kernel.shape)
        layer.weight.data.copy_(torch.from_numpy(kernel.T))
        layer.bias.data.zero_()
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _batches(setting: Setting) -> List[Tuple[Any, Any]]:
    """Return the batches: the ids of all tables, int64[tables * rows], and the labels, float32[rows]."""
    features, labels = usual_model.batches(setting)
    ids = np.stack([features[name] for name in usual_model.names(setting)], axis=1)
    return [(torch.from_numpy(np.ravel(one)), torch.from_numpy(label)) for one, label in zip(ids, labels)]
