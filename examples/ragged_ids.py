"""Ragged lists of ids: the purchases of a user as a RaggedTensor. The model uses the mean of their rows."""
from typing import Iterator, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

ITEMS, BATCH = 300, 50


def batches(seed: int = 1) -> Iterator[Tuple[np.ndarray, ...]]:
    """Yield endless batches: ids int64[items of all users], lengths int64[BATCH], label float32[BATCH]."""
    random = np.random.RandomState(seed)
    while True:
        lengths = random.randint(0, 6, BATCH)
        ids = random.randint(0, ITEMS, lengths.sum())
        good = np.add.reduceat(np.append(ids % 3 == 0, 0), np.append(0, lengths.cumsum()[:-1])) * (lengths > 0)
        yield ids, lengths, np.float32(good > lengths / 3)


def main() -> None:
    with asc.pipeline():
        spec = asc.FeatureSpec("items")
        dataset = tf.data.Dataset.from_generator(batches, (tf.int64, tf.int64, tf.float32), ([None], [BATCH], [BATCH]))
        dataset = dataset.map(lambda ids, lengths, label: {
            "items": tf.RaggedTensor.from_row_lengths(ids, lengths), "label": label, "lengths": lengths})
        dataset = dataset.map(asc.insert_function(spec)).prefetch(32)
        iterator = tf.data.make_initializable_iterator(dataset)
        batch = iterator.get_next()

        table = asc.create_table("items", 8, device_vocabulary_size=2 * ITEMS,
                                 initializer=tf.random_normal_initializer(stddev=0.1, seed=1))
        # Dense: float32[BATCH, longest list, 8], with zeros after the end of a list.
        rows = asc.sparse_lookup(table, spec, batch=batch)
        lengths = tf.cast(tf.maximum(batch["lengths"], 1), tf.float32)
        mean = tf.reduce_sum(rows, 1) / tf.expand_dims(lengths, 1)
        logits = tf.squeeze(tf.layers.dense(mean, 1), 1)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=batch["label"], logits=logits))
        train = asc.optimizers.LazyAdam(0.02).minimize(loss)

        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            for step in range(1, 601):
                value, _ = session.run([loss, train])
                if step % 200 == 0:
                    print("step {}: loss {:.3f}".format(step, value))
        print("rows {}".format(table.size()))


if __name__ == "__main__":
    tf.logging.set_verbosity("ERROR")
    main()
