#!/usr/bin/env bash
# Makes .venv from requirements.lock, builds the ops, installs the tree and compiles the kernels: finds a CPython 3.7,
# with which scripts/set_up.py does all this.
#
# Argument: dev = also what linters and tests need, of requirements-dev.lock.
# Environment: PYTHON = the CPython 3.7 to use.  Exit: 0 done, 1 a task failed, 2 something is missing on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/find_python.sh

VENV=.venv
CACHE=${ASCPIPE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ascpipe}

# Of a tree that another user has set up nothing is changed. The kernels are in the cache of each user.
if [ -e $VENV ] && [ ! -w $VENV ]; then
  stamp=tree
  [ "${1:-}" != dev ] || stamp=dev
  if [ ! -e tfops/libascpipe_ops.so ] || [ ! -e $VENV/.stamps/tree ] || [ ! -e $VENV/.stamps/$stamp ]; then
    echo "setup: $(pwd -P) belongs to another user and is not set up: let that user run \`make ${1:+$1-}setup\`, or" \
      "clone it" >&2
    exit 2
  fi
  compgen -G "$CACHE/kernels-*/*" >/dev/null ||
    echo "setup: compiling the kernels of the workers, once for each user: a minute or two" >&2
  $VENV/bin/ascpipe warmup >&2
  exit
fi

# .venv may be in a tree that was copied from another machine, where its interpreter is not.
if ! is_python37 $VENV/bin/python; then
  find_python || { explain_python; exit 2; }
  rm -rf $VENV
else
  FOUND=$VENV/bin/python
fi
exec "$FOUND" scripts/set_up.py "$@"
