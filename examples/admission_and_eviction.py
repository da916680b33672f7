"""Admission and eviction: a key gets a row at its third occurrence, and loses the row after an hour without use."""
from typing import Dict, Iterator, Set

import numpy as np
import tensorflow.compat.v1 as tf

import ascpipe.tf as asc

tf.disable_v2_behavior()

BATCHES, BATCH = 120, 64


def batches() -> Iterator[Dict[str, np.ndarray]]:
    """Yield one batch per minute. Half of its ids are frequent, a quarter occurs once, and a quarter changes
    each half hour.
    """
    random = np.random.RandomState(1)
    for minute in range(BATCHES):
        known = random.randint(0, 100, BATCH // 2)
        once = 1000000 + minute * BATCH + np.arange(BATCH // 4)
        fashion = 1000 * (1 + minute // 30) + random.randint(0, 20, BATCH // 4)
        yield {"ids": np.concatenate([known, once, fashion]), "time": np.int64(1000000 + 60 * minute)}


def main() -> None:
    with asc.pipeline():
        ids = asc.FeatureSpec("ids", access_threshold=3, eviction_threshold=3600)  # occurrences; seconds, like "time"
        time = asc.FeatureSpec("time", is_timestamp=True)  # a scalar in each batch
        dataset = tf.data.Dataset.from_generator(batches, {"ids": tf.int64, "time": tf.int64},
                                                 {"ids": [BATCH], "time": []})
        dataset = dataset.map(asc.insert_function([ids, time])).prefetch(32)
        iterator = tf.data.make_initializable_iterator(dataset)
        batch = iterator.get_next()

        table = asc.create_table("ids", 4, device_vocabulary_size=1000,
                                 initializer=tf.random_normal_initializer(seed=1))
        # The lookup of a key without a row returns default_value. The key is not trained.
        rows = asc.sparse_lookup(table, ids, batch=batch, default_value=0.0)
        train = asc.optimizers.GradientDescent(0.1).minimize(tf.reduce_mean(tf.square(rows)))

        with tf.Session() as session:
            session.run([tf.global_variables_initializer(), iterator.initializer])
            seen: Set[int] = set()
            for minute in range(1, BATCHES + 1):
                seen.update(session.run([batch["ids"], train])[0].tolist())
                if minute % 30 == 0:
                    before = table.size()
                    asc.trigger_evict(session)  # in an Estimator: asc.EvictHook(True, evict_time_interval=60)
                    print("minute {}: {} keys seen, {} admitted, {} after the eviction".format(
                        minute, len(seen), before, table.size()))


if __name__ == "__main__":
    tf.logging.set_verbosity("ERROR")
    main()
