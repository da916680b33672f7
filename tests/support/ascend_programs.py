"""Runs the programs ``tests/support/programs/ascend_*`` as their run scripts do: by variables of the environment."""
import json
import os

from tests.integration.test_run_command import PROGRAMS, QUIET, run

DONE = "Demo done!"


class Refused(AssertionError):
    """A program did not end well; the text is what it wrote."""


def demo(name, daemon, folder, sizes, *flags, **switches):
    """Run a program in a folder to its good end; what it printed as JSON.

    Args:
        name: of the program.
        daemon: the daemon that serves it.
        folder: its working directory; made if it is not there.
        sizes: what is smaller than in the program.
        flags: its command line.
        switches: its environment.
    """
    os.makedirs(str(folder), exist_ok=True)
    environment = {**QUIET, "TF_CPP_MIN_LOG_LEVEL": "1", "MXREC_LOG_LEVEL": "INFO",
                   "DEMO_SIZES": json.dumps(sizes), **{key: str(value) for key, value in switches.items()}}
    code, out, err = run(os.path.join(PROGRAMS, name + ".py"), *flags, options=["--daemon", daemon], cwd=folder,
                         **environment)
    if code != 0:
        raise Refused("{} {} {} ended with {}\n{}".format(name, flags, switches, code, err))
    if DONE not in err:
        raise Refused("{} {} {} did not say {!r}\n{}".format(name, flags, switches, DONE, err))
    return json.loads(out.splitlines()[-1])


def plain(text):
    """A nested list of losses as text, so that two are compared bit by bit and a NaN equals itself."""
    return json.dumps(text)
