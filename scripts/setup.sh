#!/usr/bin/env bash
# Makes .venv from requirements.lock, builds the ops, installs the tree and compiles the kernels.
#
# A second run takes no time: ninja compares the ops with their sources, and each other step leaves a stamp with the
# digest of what it read. Times of files would not do there: .venv may be copied into a tree with older files.
# Argument: dev = also what linters and tests need, of requirements-dev.lock.
# Environment: PYTHON = the CPython 3.7 to use.  Exit: 0 done, 2 something is missing on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/find_python.sh
. scripts/steps.sh

VENV=.venv
PY=$VENV/bin/python
STAMPS=$VENV/.stamps
HERE=$(pwd -P)
CACHE=${ASCPIPE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ascpipe}

# stamped NAME DIGEST: true if step NAME was done with the same DIGEST before
stamped() { [ "$(cat "$STAMPS/$1" 2>/dev/null)" = "$2" ]; }
# A new file in the place of the old one: of an environment copied by `cp -al` another tree has the same files.
stamp() { mkdir -p "$STAMPS" && printf '%s' "$2" >"$STAMPS/$1.new" && mv -f "$STAMPS/$1.new" "$STAMPS/$1"; }
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }
install() { $PY -m pip install --quiet --disable-pip-version-check --no-deps "$@" 8>&-; }
locked() { install --require-hashes --no-build-isolation -r "$1"; }

kernels_digest() {
  { find ascpipe workers \( -name '*.py' -o -name '*.c' \) -print0 | sort -z | xargs -0 cat; printf '%s' "$CACHE"; } |
    digest -
}
has_kernels() { compgen -G "$CACHE/kernels-*/*" >/dev/null; }

# Of a tree that another user has set up nothing is changed. The kernels are in the cache of each user.
if [ -e $VENV ] && [ ! -w $VENV ]; then
  if [ ! -e tfops/libascpipe_ops.so ] || [ ! -e $STAMPS/install ] || [ ! -e "$STAMPS/${1:-packages}" ]; then
    say "$HERE belongs to another user and is not set up: let that user run \`make ${1:+$1-}setup\`, or clone it"
    exit 2
  fi
  has_kernels || { begin 5 "compiling the kernels of the workers, once for each user: a minute or two"; }
  $VENV/bin/ascpipe warmup >&2 8>&-
  exit
fi

packages_digest=$(digest requirements.lock)
if [ ! -x $PY ] || ! stamped packages "$packages_digest"; then
  [ -e tfops/libascpipe_ops.so ] || command -v g++ >/dev/null || missing g++ g++
  if ! is_python37 $PY; then
    find_python || { explain_python; exit 2; }
    begin 1 "making $VENV with $FOUND"
    rm -rf $VENV
    "$FOUND" -m venv $VENV 8>&- || missing "the module venv" python3-venv
    done_ "$(grep -c == requirements.lock) packages, of which TensorFlow has 110 MB"
  fi
  begin 2 "installing the packages of requirements.lock"
  # First the three that install the rest: gast has no wheel and is built with them.
  awk '/^(pip|setuptools|wheel)==/,!/\\$/' requirements.lock >$VENV/bootstrap.lock
  locked $VENV/bootstrap.lock
  locked requirements.lock
  stamp packages "$packages_digest"
  done_ "the TensorFlow ops"
fi
if [ "${1:-}" = dev ] && ! stamped dev "$(digest requirements-dev.lock)"; then
  begin 2 "installing the packages of requirements-dev.lock, for linters and tests"
  locked requirements-dev.lock
  stamp dev "$(digest requirements-dev.lock)"
  done_ "the TensorFlow ops"
fi

# ninja knows what has to be done; it says so, file by file.
[ -e tfops/libascpipe_ops.so ] || command -v g++ >/dev/null || missing g++ g++
if [ -n "$worked" ] || [ ! -e tfops/libascpipe_ops.so ]; then
  begin 3 "building the TensorFlow ops: minutes on two cores, seconds where they are compiled"
  $PY -W ignore scripts/build_ops.py >&2 8>&-
  done_ "the tree"
else
  $PY -W ignore scripts/build_ops.py >&2
fi

# A moved or copied tree must not run the old place's code: the path is part of the digest.
install_digest=$({ cat {.,packaging/mx_rec}/{pyproject.toml,setup.py}; echo "$HERE"; } | digest -)
if ! stamped install "$install_digest"; then
  begin 4 "installing the tree into $VENV (editable)"
  old=$(sed -n 's/^VIRTUAL_ENV="\(.*\)"$/\1/p' $VENV/bin/activate)
  if [ "$old" != "$HERE/$VENV" ]; then
    say "[4/5] $VENV was made in ${old%/*}: its scripts are for this place now"
    $PY scripts/move_venv.py "$old" "$HERE/$VENV"
  fi
  install --no-build-isolation -e . -e packaging/mx_rec
  # A copied tree has new times, so that Python would compile every module of TensorFlow in every process anew; where
  # PYTHONDONTWRITEBYTECODE is set, it would for ever. Some files are of other Pythons, and do not compile.
  $PY -m compileall -qq -j 0 $VENV/lib/python3.7/site-packages 8>&- || true
  stamp install "$install_digest"
  done_ "the kernels"
fi

# Workers load byte code and compiled kernels from caches; filled here, the first one starts as fast as the others. Each
# user has a cache, which may have been removed.
kernels_digest=$(kernels_digest)
if ! stamped kernels "$kernels_digest" || ! has_kernels; then
  begin 5 "compiling the kernels of the workers, once: a minute or two where none is compiled"
  $PY -m compileall -q ascpipe workers tfops mx_rec 8>&-
  $VENV/bin/ascpipe warmup >&2 8>&-
  stamp kernels "$kernels_digest"
  done_
fi
