#!/usr/bin/env bash
# Finds a CPython (3.7 if there is one, else 3.11 or 3.10) and runs scripts/set_up.py with it, which makes .venv from the
# lock files of that Python, builds the ops, installs the tree and compiles the kernels.
#
# Argument: dev = install the packages for linters and tests, too.
# Environment: PYTHON = the CPython to use.  Exit: 0 done, 1 a task failed, 2 something is missing on this machine.
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

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# .venv may be in a tree that was copied from another machine, where its interpreter is not.
if is_supported $VENV/bin/python &&
    { [ -z "${PYTHON:-}" ] || [ "$(version_of "$PYTHON")" = "$(version_of $VENV/bin/python)" ]; }; then
  FOUND=$VENV/bin/python
else
  find_python || { explain_python; exit 2; }
  rm -rf $VENV
  case $(version_of "$FOUND") in
    3.7) tensorflow=1.15 ;;
    *) tensorflow=2.15 ;;
  esac
  echo "setup: making .venv with CPython $(version_of "$FOUND") ($FOUND) and TensorFlow $tensorflow" >&2
fi
exec "$FOUND" scripts/set_up.py "$@"
