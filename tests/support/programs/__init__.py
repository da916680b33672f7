"""Programs that train through the daemon, each a process of its own: a test may stop, kill or abort it.

    python -m tests.support.programs.NAME SCENARIO...

Each scenario prints one line of JSON; one that does not end is aborted with the stacks of all its threads.
"""
