#!/usr/bin/env bash
# Installs the peers of the benchmark that need a newer CPython into build/peers/.venv: PyTorch and FBGEMM, for the CPU.
#
# Environment: PEERS_PYTHON = the CPython to use. PYTHON is the CPython of this tree, and is ignored.
# Argument: check = install nothing, only say what is missing.  Exit: 0 done, 2 something is missing on this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/find_python.sh

VERSIONS="3.11" # the lock file has files for this version
PYTHON=${PEERS_PYTHON:-}
LOCK=requirements-peers.lock
VENV=build/peers/.venv
STAMP=$VENV/peers.stamp # bench/peers.py compares it with the lock file

say() { printf 'peers: %s\n' "$*" >&2; }

if ! find_python; then
  say "there is no CPython 3.11. What was tried:"
  printf '  %s\n' "${TRIED[@]}" >&2
  exit 2
fi
[ "${1:-}" != check ] || exit 0

if sha256sum --status -c $STAMP 2>/dev/null && $VENV/bin/python -c ''; then
  exit 0
fi
say "installing PyTorch and FBGEMM into $VENV: a minute, 1 GB"
rm -rf $VENV
mkdir -p build/peers
"$FOUND" -m venv $VENV
if ! $VENV/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $LOCK; then
  say "pip did not install $LOCK. If pip did not find the CPU build of torch, set" \
    "PIP_EXTRA_INDEX_URL to PyTorch's index of CPU builds"
  exit 2
fi
$VENV/bin/python -c 'import torch, fbgemm_gpu' || { say "PyTorch or FBGEMM does not start on this machine"; exit 2; }
sha256sum $LOCK >$STAMP
