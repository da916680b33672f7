"""Stand-in for the adapter of TensorFlow 1.15."""
from ascpipe import import_hints

import_hints.install(__name__, {
    ("npu_bridge.estimator.npu.keras_to_npu", import_hints.ANY):
        "Keras is not supported; build the model with tf.layers, and train it with an Estimator or a session",
})
