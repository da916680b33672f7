"""The incumbent's collectives among two and three ranks, beside what numpy computes."""
import json

import pytest

from tests.support import tree
from tests.support.ranked_runs import ended
from tests.support.several_ranks import by, needs_horovod, said

pytestmark = [needs_horovod, pytest.mark.timeout_s(120)]

PROGRAM = """\
import json, sys
import numpy as np
import tensorflow as tf
sys.path.append(sys.argv[1])
from npu_bridge.hccl import hccl_ops
from ascpipe import ranks

rank, size = ranks.get_rank_id(), ranks.get_rank_size()
mine = np.float32([[1, 2], [3, 4], [5, 6], [7, 8], [9, 1], [2, 3]]) * (rank + 1) - 5
fetches, expected = {}, {}
every = [np.float32([[1, 2], [3, 4], [5, 6], [7, 8], [9, 1], [2, 3]]) * (other + 1) - 5 for other in range(size)]
for name, function in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)):
    fetches[name] = hccl_ops.allreduce(tf.constant(mine), name)
    fetches["scattered " + name] = hccl_ops.reduce_scatter(tf.constant(mine), name, size)
    expected[name] = function.reduce(every)
    expected["scattered " + name] = np.split(expected[name], size)[rank]
fetches["gathered"] = hccl_ops.allgather(tf.constant(mine[rank:]), size, group="hccl_world_group")
expected["gathered"] = np.concatenate([one[other:] for other, one in enumerate(every)])
fetches["first"], fetches["second"] = hccl_ops.broadcast([tf.constant(mine), tf.constant([rank])], size - 1)
expected["first"], expected["second"] = every[-1], np.int32([size - 1])

matrix = np.arange(size * size).reshape(size, size) + 1  # rank r sends matrix[r, o] elements to o
elements = [np.arange(100, dtype=np.float32) + 1000 * other for other in range(size)]
starts = [np.concatenate([[0], np.cumsum(row)[:-1]]) for row in matrix]
def sent(source, target, shift=0):
    return elements[source][shift + starts[source][target]:][:matrix[source, target]]
fetches["by matrix"] = hccl_ops.all_to_all_v_c(tf.constant(elements[rank]), tf.constant(matrix), rank)
expected["by matrix"] = np.concatenate([sent(other, rank) for other in range(size)])
column = matrix[:, rank]
places = np.concatenate([[0], np.cumsum(column)[:-1]]) + 2 * np.arange(size)  # gaps of two
fetches["with gaps"] = hccl_ops.all_to_all_v(
    tf.constant(elements[rank]), matrix[rank], starts[rank] + 7, column, places)
laid = np.zeros(places[-1] + column[-1], np.float32)
for other in range(size):
    laid[places[other]:places[other] + column[other]] = sent(other, rank, 7)
expected["with gaps"] = laid
wrong = hccl_ops.all_to_all_v(tf.constant(elements[rank]), matrix[rank], starts[rank], column + 1, places)

refused = []
for call in (lambda: hccl_ops.allgather(tf.constant(mine), 1), lambda: hccl_ops.broadcast([tf.constant(1)], size),
             lambda: hccl_ops.allreduce(tf.constant(mine), "mean"),
             lambda: hccl_ops.all_to_all_v_c(tf.constant(mine), tf.constant(matrix), rank + 1)):
    try:
        call()
    except ValueError as error:
        refused.append(str(error))
with tf.compat.v1.Session() as session:
    found = session.run(fetches)
    try:
        session.run(wrong)
    except tf.errors.InvalidArgumentError as error:
        refused.append("ranks send other numbers" in str(error))
for name in expected:
    np.testing.assert_array_equal(found[name], expected[name], name)
print(json.dumps([len(expected), len(refused), refused[-1]]))
"""


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.long)])
def test_collectives_give_what_ranks_have_given(launcher, size, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    code, out, err = ended(by(launcher, size, path, str(tree.ROOT / "ascpipe/standins")), HOROVOD_FUSION_THRESHOLD="0")
    assert code == 0, err
    assert [json.loads(said(out, rank)[-1]) for rank in range(size)] == [[13, 5, True]] * size


def test_a_dimension_that_ranks_do_not_divide_is_not_scattered(launcher, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import tensorflow as tf\nfrom ascpipe.tf.incumbent import collectives\n"
                    "part = collectives.reduce_scatter(tf.ones([3]), 'sum', 2)\n"
                    "tf.compat.v1.Session().run(part)\n")
    code, _, err = ended(by(launcher, 2, path))
    assert code != 0
    assert "the number of ranks does not divide the first dimension" in err


def test_gradients_go_through_a_sum_over_ranks(launcher, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("import tensorflow as tf\nfrom ascpipe import ranks\nfrom ascpipe.tf.incumbent import collectives\n"
                    "x = tf.constant([3.0])\n"
                    "y = collectives.allreduce(x * x) * (ranks.get_rank_id() + 1.0)\n"
                    "print(tf.compat.v1.Session().run(tf.gradients(y, x)[0])[0])\n")
    code, out, err = ended(by(launcher, 2, path))
    assert code == 0, err
    assert [said(out, rank) for rank in (0, 1)] == [["18.0"]] * 2  # 2 * 3 * (1 + 2)
