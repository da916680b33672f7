"""The model of both demos: rows summed for each feature, four layers, two tasks."""
import tensorflow as tf

from mx_rec.core.embedding import sparse_lookup
from mx_rec.util.tf_version_adapter import npu_ops


class MyModel:
    def __init__(self, units, keep_prob=None):
        self.units, self.keep_prob = units, keep_prob
        self.loss_list, self.logit_list = [], []

    def __call__(self, embedding_list, labels):
        with tf.compat.v1.variable_scope("mlp", reuse=tf.compat.v1.AUTO_REUSE, use_resource=True):
            embedding = tf.concat(embedding_list, axis=1)
            for number, units in enumerate(self.units):
                embedding = layer(embedding, units, "layer_{}".format(number), tf.nn.relu)
                if self.keep_prob is not None:
                    embedding = npu_ops.dropout(embedding, keep_prob=self.keep_prob)
            for task in range(2):
                self.logit_list.append(tf.squeeze(layer(embedding, 1, "task_{}".format(task)), axis=1))
        for logit, label in zip(self.logit_list, labels):
            self.loss_list.append(tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=label, logits=logit)))
        return self


def layer(inputs, units, name, activation=None):
    return tf.compat.v1.layers.dense(inputs, units, activation, name=name,
                                     kernel_initializer=tf.compat.v1.glorot_uniform_initializer(seed=1))


def model_forward(model, input_list, batch, labels, is_train, modify_graph, config_dict=None, no_grad=()):
    """``no_grad``: places of lookups that do not train."""
    embedding_list = []
    for number, (feature, hash_table, send_count) in enumerate(zip(*input_list)):
        access_and_evict_config = None
        if isinstance(config_dict, dict):
            access_and_evict_config = config_dict.get(hash_table.table_name)
        embedding = sparse_lookup(hash_table, feature, send_count, dim=None, is_train=is_train,
                                  access_and_evict_config=access_and_evict_config,
                                  name=hash_table.table_name + "_lookup", modify_graph=modify_graph, batch=batch,
                                  is_grad=number not in no_grad, serving_default_value=None)
        embedding_list.append(tf.reduce_sum(embedding, axis=1, keepdims=False))
    return model(embedding_list, labels)
