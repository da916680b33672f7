"""Thread pools of sessions that ascpipe creates for its own work."""
import os
from typing import Iterator

from ascpipe.tf.clean_up import interruptible


@interruptible
def without_shared_thread_pool() -> Iterator[None]:
    """Context manager in which new sessions do not determine the number of threads of later sessions.

    The first session of a process creates one thread pool for all sessions. If ascpipe's session came first, the
    program would train with one thread. With the environment variable that this function sets, the first session makes
    TensorFlow create a thread pool for each session. If the program created a session before the block, the pool of
    that session is used.
    """
    name = "TF_OVERRIDE_GLOBAL_THREADPOOL"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
