"""Environment of the peers that need a newer CPython than ascpipe. `make peers` installs it into ``build/peers``."""
import hashlib
import os
import re

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOCK = os.path.join(_ROOT, "requirements-peers.lock")
_VENV = os.path.join(_ROOT, "build/peers/.venv")
_NAMED = ("torch", "fbgemm-gpu-cpu")  #: packages whose versions are noted with a result

PYTHON = os.path.join(_VENV, "bin/python")


def missing() -> str:
    """Return what is missing, or "" if the packages of the lock file are installed."""
    try:
        with open(_LOCK, "rb") as lock, open(os.path.join(_VENV, "peers.stamp")) as stamp:
            is_current = stamp.read().split()[:1] == [hashlib.sha256(lock.read()).hexdigest()]
    except OSError:
        is_current = False
    return "" if is_current and os.access(PYTHON, os.X_OK) else "PyTorch and FBGEMM are not installed; run `make peers`"


def versions() -> str:
    """Return the locked versions of PyTorch and FBGEMM."""
    with open(_LOCK) as lock:
        found = dict(re.findall(r"^([\w-]+)==(\S+) ", lock.read(), re.M))
    return ", ".join("{} {}".format(name, found[name]) for name in _NAMED)
