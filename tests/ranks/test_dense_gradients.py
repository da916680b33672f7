"""Gradients of dense variables, averaged over two and three ranks by ``ascpipe.tf.DistributedOptimizer``."""
import json

import pytest

from tests.support.ranked_runs import ended
from tests.support.several_ranks import horovodrun, needs_horovod, said

pytestmark = [needs_horovod, pytest.mark.timeout_s(120)]

PROGRAM = """\
import json
import numpy as np
import tensorflow as tf
import ascpipe.tf
from ascpipe import ranks
from ascpipe.tf.program import dense_variables

rank, size = ranks.get_rank_id(), ranks.get_rank_size()
dense_variables.PACKED_BYTES = 100
shapes = [[3], [2, 2], [], [5, 4], [7], [30], [1, 0, 2]]
variables = [tf.compat.v1.Variable(np.zeros(shape, np.float32)) for shape in shapes]
variables += [tf.compat.v1.Variable(np.zeros(shape)) for shape in shapes[:2]]  # of float64
rows, unused = tf.compat.v1.Variable(np.zeros([6, 2], np.float32)), tf.compat.v1.Variable(1.0)
mine = [np.random.RandomState(10 * place + rank).rand(*variable.shape.as_list()) for place, variable
        in enumerate(variables)]
loss = tf.add_n([tf.cast(tf.reduce_sum(variable * value.astype(variable.dtype.as_numpy_dtype)), tf.float64)
                 for variable, value in zip(variables, map(np.asarray, mine))])
loss += tf.cast(tf.reduce_sum(tf.gather(rows, [rank, 5])), tf.float64)
optimizer = ascpipe.tf.DistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(1.0))
pairs = optimizer.compute_gradients(loss, [*variables, rows, unused])
train = optimizer.apply_gradients(pairs)
assert [variable for _, variable in pairs] == [*variables, rows, unused] and pairs[-1][0] is None
sums = sum(op.type == "HorovodAllreduce" for op in tf.compat.v1.get_default_graph().get_operations())
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(train)
    got = session.run(variables)
    got_rows = session.run(rows)
for place, (variable, value) in enumerate(zip(variables, got)):
    all_ranks = [np.random.RandomState(10 * place + other).rand(*value.shape) for other in range(size)]
    np.testing.assert_allclose(value, -np.mean(all_ranks, 0), rtol=1e-6)
want = np.zeros([6, 2])
for other in range(size):
    want[[other, 5]] -= 1 / size
np.testing.assert_allclose(got_rows, want, rtol=1e-6)
print(json.dumps([sums, [value.tobytes().hex() for value in got]]))
"""


@pytest.mark.parametrize("size, times", [
    pytest.param(2, 1, id="2"), pytest.param(2, 2, marks=pytest.mark.long, id="2 again"),
    pytest.param(3, 2, marks=pytest.mark.long, id="3 again")])
def test_gradients_of_a_type_are_averaged_together_up_to_a_size(size, times, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    runs = []
    for _ in range(times):
        code, out, err = ended(horovodrun(size, path))
        assert code == 0, err
        runs += [json.loads(said(out, rank)[-1]) for rank in range(size)]
    assert [run[0] for run in runs] == [6] * len(runs)  # of 12 + 16 + 4, 80, 28, 120 and 0 bytes, and of float64
    assert all(run[1] == runs[0][1] for run in runs)  # the same bits on all ranks, and again
