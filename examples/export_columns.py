"""A program with feature columns exports a model that a server with only TensorFlow can load."""
import tempfile
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

USERS, BATCH = 20000, 500


def classifier(folder: str) -> Any:
    """Return an Estimator as TensorFlow's documentation builds it. The column gets a table."""
    user = tf.feature_column.categorical_column_with_identity("user", USERS)
    return tf.estimator.LinearClassifier([user], folder, optimizer=tf.train.FtrlOptimizer(1.0))


def input_fn() -> tf.data.Dataset:
    """Return generated clicks. A click depends on the user only."""
    users = np.arange(USERS)
    return tf.data.Dataset.from_tensor_slices(({"user": users}, np.int64(users % 7 < 3))).batch(BATCH).prefetch(2)


def click(path: str, user: int) -> float:
    """Load a SavedModel as a server does, and return the probability that a user clicks."""
    with tf.Session(graph=tf.Graph()) as session:
        signature = tf.saved_model.load(session, ["serve"], path).signature_def["predict"]
        feature = tf.train.Feature(int64_list=tf.train.Int64List(value=[user]))
        example = tf.train.Example(features=tf.train.Features(feature={"user": feature})).SerializeToString()
        probability = session.run(signature.outputs["logistic"].name, {signature.inputs["examples"].name: [example]})
        assert not [op for op in session.graph.get_operations() if op.type.startswith("Asc")]
    return float(probability[0, 0])


def main() -> None:
    tf.logging.set_verbosity("ERROR")
    asc.use_for_feature_columns()
    with tempfile.TemporaryDirectory() as folder:
        estimator = classifier(folder + "/model")
        estimator.train(input_fn)
        receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(
            {"user": tf.FixedLenFeature([1], tf.int64)})
        path = asc.export_saved_model(estimator, folder + "/exported", receive, ops="stock").decode()
        for user in (1, 5):
            print("user {}: click {:.1f}".format(user, click(path, user)))
    asc.shutdown()


if __name__ == "__main__":
    main()
