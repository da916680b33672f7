"""A real worker that ends badly as soon as the file $ASCPIPE_X_STANDIN_FAULT asks for it.

    python -m tests.support.faulty_worker KIND --channel FD --index I --generation G

The file holds a worker's kind and what shall happen in its next step: ``table ValueError`` or ``key SIGSEGV``.
"""
import os
import signal
import sys
from pathlib import Path

from ascpipe.layout import structs
from ascpipe.workers import key_worker, table_worker
from ascpipe.workers.runner import command

KINDS = {"key": (structs.BELL_KEY_WORKERS, key_worker.make_work),
         "table": (structs.BELL_TABLE_WORKERS, table_worker.make_work)}


def faulty(kind, make_work):
    order = Path(os.environ["ASCPIPE_X_STANDIN_FAULT"])

    def make(worker, attachment):
        work = make_work(worker, attachment)

        def faulty_step():
            if order.exists():
                whose, how = order.read_text().split()
                if whose == kind:
                    fail(how)
            return work.step()

        return work._replace(step=faulty_step)

    return make


def fail(how):
    if how == "ValueError":
        raise ValueError("slot 7 has two keys")
    os.kill(os.getpid(), signal.Signals[how])


if __name__ == "__main__":
    kind = sys.argv.pop(1)
    bell_base, make_work = KINDS[kind]
    command("faulty_worker", bell_base, faulty(kind, make_work))()
