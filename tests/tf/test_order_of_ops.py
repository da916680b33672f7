"""The order in which ops of a graph were created, by which ops before and after a training op are told apart."""
import tensorflow as tf

from ascpipe.tf import internals


def test_the_newest_order_is_that_of_the_op_that_was_created_last():
    with tf.Graph().as_default() as graph:
        orders = []
        for create in (lambda: tf.zeros([3]), lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]),
                       lambda: tf.compat.v1.get_variable("a", [2]), lambda: tf.ones([2])):
            create()
            newest = max(graph.get_operations(), key=internals.order_of)
            assert internals.newest_order(graph) == internals.order_of(newest)
            orders.append(internals.newest_order(graph))
        assert orders == sorted(set(orders))
        assert newest.type == "Const"
