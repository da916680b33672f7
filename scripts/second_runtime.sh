#!/usr/bin/env bash
# Runs a part of the tests, or the demo, with CPython 3.11 or 3.10 and TensorFlow 2.15, in a copy of this tree in build/tf2.
# A tree has one environment and one library of ops, so the copy has its own.
#
# Arguments: check = only find an interpreter; else arguments for pytest, and --demo = run the demo at the end. Tests of each
# folder have a pytest run of their own. A table of these runs is printed, as `make test` prints it.
# Environment: TF2_PYTHON = the CPython to use. PYTHON is the CPython of this tree, and is ignored.
# Exit: that of the tests, 2 = there is no such CPython.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/find_python.sh

VERSIONS="3.11 3.10"
PYTHON=${TF2_PYTHON:-}
if ! find_python; then
  printf 'second runtime: there is no CPython 3.11 or 3.10. What was tried:\n' >&2
  printf '  %s\n' "${TRIED[@]}" >&2
  exit 2
fi
[ "${1:-}" != check ] || exit 0
export PYTHON=$FOUND
unset MAKEFLAGS ARGS DATA RANKS # of the `make` that called us: they are not for the `make` of the copy

# Remove the files of the last copy, except what was built there: a deleted test must not run.
mkdir -p build/tf2
find build/tf2 -type f -not -path '*/.venv/*' -not -path 'build/tf2/build/*' -not -path '*/tfops/build/*' \
  -not -name '*.so' -not -name build_info.json -delete
git ls-files -z --cached --others --exclude-standard |
  tar --null --files-from=- --ignore-failed-read --warning=no-failed-read -cf - | tar -xf - -C build/tf2
cd build/tf2
git init -q # the tests of wheels ask git for the files of the tree, and git ignores build/ of this tree
make dev-setup
TEST_OTHER_TREE=$(cd ../.. && pwd)
export TEST_OTHER_TREE

declare -A files=()
options=() demo=""
for argument in "$@"; do
  case $argument in
    --demo) demo=yes ;;
    tests/*)
      suite=${argument#tests/}
      files[${suite%%/*}]+=" $argument"
      ;;
    *) options+=("$argument") ;;
  esac
done
code=0
rm -rf build/test-results
for suite in "${!files[@]}"; do
  # pyproject.toml makes every warning an error. TensorFlow 2.15 and newer packages issue warnings themselves.
  # shellcheck disable=SC2086  # names of files
  TEST_SUITE=$suite .venv/bin/python -m pytest -q -o filterwarnings=ignore ${files[$suite]} "${options[@]}" || code=$?
done
.venv/bin/python -m tests.results summary "${!files[@]}" || code=$?
[ -z "$demo" ] || make demo || code=$?
exit "$code"
