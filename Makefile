# One verb per job; .ci/run calls the same ones.  Every verb does the set-up it needs (`make setup`), which takes
# no time when nothing changed.
#
#   make setup, make dev-setup               what `make demo` needs; what linters and tests need on top
#   make python                              a CPython 3.7 into .python/, for TensorFlow 1.15
#   make wheels                              the wheels of ascpipe and ascpipe-mx-rec, in dist/
#   make demo [DATA=file.tsv] [ARGS="..."]   the main job: trains the example through the pipeline
#   make demo RANKS=2                        the same on two ranks, after `make ranks`
#   make test                                every test but the long ones, and a table of suites at the end
#   make check                               lint, types, and a part of the tests in three minutes: for each small change
#   make test-long                           faults in number; make test-sweeps runs all that is long, hours
#   make test-tf2                            a part of the tests on TensorFlow 2.15, in a copy of the tree
#   make test-unit ARGS="-k ring"            one suite, with arguments for pytest
#   make soak [HOURS=0.5] [SEED=7]           trains while faults happen, and judges results and memory (docs/internals/testing.md)
#   make ranks                               Horovod for training on several ranks, and for its tests
#   make docs                                the documents as a site, in build/site
#   make bench, make bench-usual             measure: the parts; programs as users write them
#   make bench-ranks                         measure: several ranks
#   make peers, make bench-peers             PyTorch and FBGEMM, peers of the bench; measure: compared with them
#
# PYTHON=/path/to/python names the interpreter for .venv: CPython 3.7, 3.10 or 3.11.

PY := .venv/bin/python
# Byte code of tests is kept even where the environment asks for none: pytest rewrites every test file otherwise, in each
# suite anew.  TEST_SUITE names the file of results (tests/results.py).
PYTEST = TEST_SUITE=$(@:test-%=%) PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q
MAKEFLAGS += --no-print-directory
SUITES := test-integration test-fault test-tf-o test-ranks test-tf-f test-tf-a test-unit test-model test-unit-nojit \
	test-cpp test-house test-conformance

LONG := test-long-kills test-long-attacks test-long-hangs test-unit-bounds test-long-changes

.PHONY: setup dev-setup build python wheels sdist ranks peers fmt lint types test check test-smoke test-long test-sweeps test-tf test-tf2 soak demo docs \
	bench bench-usual bench-ranks bench-peers clean $(SUITES) $(LONG)
.DEFAULT_GOAL := test

setup build:
	@scripts/setup.sh

dev-setup:
	@scripts/setup.sh dev

python:
	@python3 scripts/get_python.py

# The ops are those of the tree, which `setup` has built.
wheels: setup
	@$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist . ./packaging/mx_rec
	@ls dist/*.whl

sdist: setup
	@$(PY) -W ignore setup.py -q sdist
	@ls dist/*.tar.gz

# Horovod is built once, in minutes; tests of several ranks run where it is installed.
ranks: setup
	@scripts/ranks.sh

# Peers of the bench that need a newer CPython, in an environment of their own.
peers:
	@scripts/peers.sh

CPP_FILES = $(wildcard tfops/src/*/*.cc tfops/src/*/*.h tests/cpp/*.cc tests/cpp/*.h)

lint: dev-setup
	$(PY) -m ruff check .
	@.venv/bin/clang-format --dry-run --Werror $(CPP_FILES)
	@$(PY) scripts/tidy.py

fmt: dev-setup
	$(PY) -m ruff check --fix .
	@.venv/bin/clang-format -i $(CPP_FILES)

# workers/ and tfops/ are packages of ascpipe: mypy sees them where a wheel puts them.
types: dev-setup
	@rm -rf build/tree
	@$(PY) -W ignore setup.py -q build_py --build-lib build/tree 2>/dev/null
	cd build/tree && MYPYPATH=../.. ../../$(PY) -m mypy --config-file ../../pyproject.toml --cache-dir ../mypy \
		-p ascpipe -p mx_rec -p bench -p examples
	@$(PY) -m mypy --config-file pyproject.toml --cache-dir build/mypy scripts/*.py

# Three suites at a time, the long ones first: tests wait for processes so often that two do not keep two cores busy.
# What a suite prints appears when it has ended.
test: dev-setup
	@rm -rf build/test-results
	@$(MAKE) -k -j3 --output-sync=target $(SUITES); code=$$?; \
		$(PY) -m tests.results summary $(SUITES:test-%=%) && exit $$code

# For each small change: what finds most mistakes soonest, and a test or two of everything else.
check: dev-setup
	@rm -rf build/test-results
	@$(MAKE) -k -j2 --output-sync=target test-unit test-house types test-smoke lint; code=$$?; \
		$(PY) -m tests.results summary unit house smoke && exit $$code

SMOKE := tests/tf/test_documented_program.py tests/tf/test_training_exactness.py tests/integration/test_readme.py \
	tests/integration/test_run_command.py tests/fault/test_kills_of_workers.py tests/ranks/test_exactness.py \
	tests/model/test_lease.py tests/conformance/test_segment.py tests/cpp/test_core.py

test-smoke: dev-setup
	$(PYTEST) -m "smoke and not long" $(SMOKE) $(ARGS)

test-unit: dev-setup
	$(PYTEST) tests/unit $(ARGS)

# All that meets a kernel, again without the compiler, which shows what works by luck. Python checks every index, so the
# compiled bounds checks are left to the long run, and so are the workers, which add no kernel.
COMPILED := tests/unit/kernels tests/unit/shm tests/unit/tables

test-unit-nojit: dev-setup
	NUMBA_DISABLE_JIT=1 $(PYTEST) -W "ignore:overflow encountered:RuntimeWarning" $(COMPILED) $(ARGS)

test-unit-bounds: dev-setup
	NUMBA_BOUNDSCHECK=1 $(PYTEST) $(COMPILED) tests/unit/workers $(ARGS)

# The longest suite in three parts, so that all processes have work to the end.
test-tf: test-tf-a test-tf-f test-tf-o

test-tf-a: dev-setup
	$(PYTEST) tests/tf/test_[a-e]*.py $(ARGS)

test-tf-f: dev-setup
	$(PYTEST) tests/tf/test_[f-n]*.py $(ARGS)

test-tf-o: dev-setup
	$(PYTEST) tests/tf/test_[o-z]*.py $(ARGS)

# A suite without a test yet is no failure.
test-ranks test-conformance test-cpp test-integration test-fault test-house test-model: test-%: dev-setup
	@test -z "$$(find tests/$* -name 'test_*.py' 2>/dev/null)" || (set -x; $(PYTEST) tests/$* $(ARGS))

# The second runtime, CPython 3.11 or 3.10 with TensorFlow 2.15: tests of what differs by TensorFlow, and one of faults.
TF2_TESTS := tests/tf/test_reached_patches.py tests/tf/test_documented_program.py tests/tf/test_lookup_fusion.py \
	tests/tf/test_graph_modification.py tests/tf/test_saving.py tests/tf/test_warm_start.py \
	tests/tf/test_managed_sessions.py tests/tf/test_ops_load.py tests/tf/test_ops_lookup.py tests/tf/test_ops_plan.py \
	tests/tf/test_ops_tables.py tests/tf/test_ops_apply.py tests/tf/test_ops_combine.py tests/tf/test_lookup_sparse.py \
	tests/tf/test_order_of_ops.py tests/tf/test_ops_on_gradients.py tests/integration/test_crossing_checkpoints.py \
	tests/fault/test_kills_of_workers.py tests/tf/test_read.py tests/tf/test_read_positions.py tests/tf/test_read_text.py \
	tests/tf/test_stock_initial_rows.py tests/tf/test_stock_saved_models.py tests/tf/test_served_updates.py \
	tests/tf/test_leases_of_failed_steps.py tests/tf/test_warm_starts_by_tensorflow.py tests/tf/test_csv_records.py \
	tests/tf/test_habits_of_programs.py

test-tf2: dev-setup
	@scripts/second_runtime.sh --demo $(TF2_TESTS) $(ARGS)

# Three at once, which keep two cores busy: processes that hang use none. -s: their figures.
test-long: dev-setup
	@$(MAKE) -k -j3 --output-sync=target $(LONG); code=$$?; $(MAKE) test-tf2 && exit $$code

test-long-kills: dev-setup
	$(PYTEST) -s -m long tests/fault/test_kills_in_number.py tests/fault/test_kills_of_workers.py \
		tests/fault/test_kills_with_tiers.py tests/fault/test_trainer_deaths.py \
		-k "in_number or thousand or begins" $(ARGS)

test-long-attacks: dev-setup
	$(PYTEST) -s -m long tests/fault/test_forked_kills.py tests/fault/test_mad_workers.py \
		tests/fault/test_control_attacks.py $(ARGS)

test-long-hangs: dev-setup
	$(PYTEST) -s -m long tests/fault/test_hangs.py tests/fault/test_kills_with_tiers.py \
		tests/fault/test_stopped_starts.py tests/fault/test_slow_trainers.py tests/fault/test_soak.py \
		-k "hangs or twenty or stopped or slow or soak" $(ARGS)

test-long-changes: dev-setup
	$(PYTEST) -m long tests/tf/test_new_lookup.py $(ARGS)

# Tests of hypothesis have many more examples than in make test.
test-sweeps: dev-setup
	$(PYTEST) -m long tests $(ARGS)
	TEST_EXAMPLES=long $(PYTEST) -m hypothesis tests $(ARGS)

soak: dev-setup
	@$(PY) -m tests.soak $(if $(HOURS),--hours $(HOURS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

demo: $(if $(RANKS),ranks,setup)
	@$(if $(RANKS),PYTHONPATH=. .venv/bin/ascpipe run --ranks $(RANKS) examples/dlrm/train.py,$(PY) -m \
		examples.dlrm.train) $(if $(DATA),--data $(DATA)) $(ARGS)

# Packages of the site have an environment of their own. Its scripts have the path of the tree where they were made, so
# that none of them is run: in a copied tree its modules are there, and the scripts lead to another place.
DOCS := build/docs-venv/bin/python

docs: setup
	@sha256sum --status -c build/docs-venv/stamp 2>/dev/null || (set -e; rm -rf build/docs-venv; \
		$(PY) -m venv build/docs-venv; $(DOCS) -m pip install --quiet --disable-pip-version-check --no-deps \
		--require-hashes -r requirements-docs.lock; sha256sum requirements-docs.lock >build/docs-venv/stamp)
	@$(PY) scripts/docs_site.py lay-out build/docs
	@$(DOCS) -m mkdocs build --strict
	@$(PY) scripts/docs_site.py check build/site

bench: dev-setup
	@$(PY) -m bench $(ARGS)

# Programs as users write them: their figures, and what else has goals beside them, in one run.
USUAL := usual usual_cpu columns input cells scale startup idle

bench-usual: dev-setup
	@mkdir -p build
	@$(PY) -m bench $(USUAL:%=--pattern %) --json build/usual.json --markdown $(ARGS)

bench-ranks: ranks dev-setup
	@mkdir -p build
	@$(PY) -m bench --pattern ranks --pattern ranks_cpu --pattern ranks_late --pattern exchange --json build/ranks.json --markdown $(ARGS)

bench-peers: peers dev-setup
	@mkdir -p build
	@$(PY) -m bench --pattern usual_large --pattern usual_peers --json build/peers.json --markdown $(ARGS)

clean:
	rm -rf build dist packaging/mx_rec/build packaging/mx_rec/*.egg-info .hypothesis .ruff_cache .pytest_cache .mypy_cache *.egg-info .venv
	find ascpipe workers tfops mx_rec tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf tfops/build tfops/*.so tfops/build_info.json
