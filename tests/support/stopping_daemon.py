"""Runs the real daemon, of which one child is stopped between its fork and the begin of its program.

    python -m tests.support.stopping_daemon --name NAME [--private-to PID] [--ready-fd FD]

$ASCPIPE_X_STOPPED_CHILD is the child's number, from 0: the template, then workers that are executed.  -1: the daemon
stops itself before it is ready.
"""
import itertools
import os
import signal

from ascpipe.control import child


def stop_this_process():
    os.kill(os.getpid(), signal.SIGSTOP)


def main():
    stopped, numbers = int(os.environ["ASCPIPE_X_STOPPED_CHILD"]), itertools.count()
    begin = child.Child.__init__

    def begin_one(made, command, **options):
        if next(numbers) == stopped:
            options["preexec_fn"] = stop_this_process
        begin(made, command, **options)

    child.Child.__init__ = begin_one
    if stopped == -1:
        stop_this_process()
    from ascpipe.daemon import start

    start.begin()


if __name__ == "__main__":
    main()
