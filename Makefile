# Every target makes the environment it runs in afresh: Python >= 3.10, make and the package index suffice.
PYTHON ?= python3
SECONDS ?= 60

CODE = natsync pytest_natsync dissect tests samples
TYPED = natsync pytest_natsync dissect tests/support samples
PROSE = *.md docs natsync pytest_natsync dissect samples
BLACK = black --quiet --line-length 100 --target-version py310
# What must be covered line by line and branch by branch, and the tests that do so. Only these run under
# coverage, which more than doubles the time of a test; EXHAUSTIVE tests reach no other line.
PROVEN = natsync/protocol/*,dissect/nats/tcp/reassembly.py
EXHAUSTIVE = test_captures.py test_cost.py test_decoder_pieces.py test_fuzz.py test_properties.py
PROOFS = $(filter-out $(EXHAUSTIVE:%=tests/protocol/%) %/test_reassembly_samples.py, \
	$(wildcard tests/protocol/test_*.py tests/dissector/tcp/test_reassembly*.py \
	tests/dissector/tcp/test_paths.py tests/dissector/tcp/test_checksum.py))

# The quick tests: those that need no server, from the client and from packets to frames, but the long ones, and
# those that Hypothesis makes examples for. LIBRARIES are the extras that they need.
QUICK_TESTS = -m 'not (slow or bench or server or spark or hypothesis)' tests/protocol tests/engine tests/client \
	tests/jetstream tests/kv tests/micro tests/object_store tests/streaming \
	$(addprefix tests/dissector/,capture framing packet schema secrets sessions tcp) \
	$(EXHAUSTIVE:%=--ignore=tests/protocol/%) $(addprefix --ignore=tests/dissector/,tcp/test_clocks.py tcp/test_paths.py \
	tcp/test_reassembly_samples.py framing/test_frame_stream.py framing/test_loss.py framing/test_sums.py)
LIBRARIES = nkeys,parquet,zstd
QUICK = .venv-quick
# What must be the same with the kernel, which most tests do not use, since their captures are small. It was compiled
# for the tests before, which compare it with Python alone.
BOTH_WAYS = $(addprefix tests/dissector/,test_goldens.py test_agreement.py)
# What old versions of libraries would break first: columns, SQL, rules, pages, and tables on Spark. Spark 4.0 leaves
# a socket to the garbage collector, which Python warns of.
LOWEST_TESTS = -m 'not (slow or bench or server)' -k 'not notebook' -W ignore::pytest.PytestUnraisableExceptionWarning \
	$(addprefix tests/dissector/,test_tables.py test_plots.py output/arrow output/test_formats.py output/test_duckdb.py \
	audit/sql audit/sigma audit/test_samples.py report/page report/figures kernel/test_load.py secrets) \
	tests/spark/test_types.py
PYTHONS = python3.10 python3.11 python3.12 python3.13 python3.14

VENV = .venv-$@
RUN = @PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
# Two workers more than there are processors, because many tests wait for a server, and not for a processor. On two
# of them, the second run of pytest took 381 and 400 s with one worker more, 371 and 359 s with two.
PYTEST = python -m pytest --numprocesses $$(($$(getconf _NPROCESSORS_ONLN) + 2)) --maxprocesses 6 --dist loadgroup \
	--no-loadscope-reorder

# Tests start Python some hundred times; without compiled files each start takes twice as long.
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo quick test lowest matrix dist stan nats lint format docs man bench table fuzz soak chaos growth captures pictures clean

# A new environment named after the target, with what the target NEEDS. Python compiles a module when it is first
# imported: to compile all of them took 19 of 54 seconds, and most are never imported. To install what the tests
# need took the pip of Python 3.11 (23.2) 72 s, pip 26 took 52 s.
define fresh
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	{ echo '$(PYTHON) is not Python 3.10 or later: install it, or name one: make TARGET PYTHON=python3.12' >&2; exit 1; }
@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo '$(PYTHON) cannot make virtual environments: on Debian, run apt-get install python3-venv' >&2; exit 1; }
@echo 'make: installing into $(VENV)'
@rm -rf $(VENV) build natsync.egg-info && $(PYTHON) -m venv $(VENV)
@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile --upgrade pip
@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile '$(NEEDS)'
endef

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 10

demo: NEEDS = .[dissect,fast]
demo: ## install as a user would, and print the sessions in samples/captures
	$(fresh)
	$(RUN) nats-dissect sessions samples/captures

# The environment stays until setup.cfg changes, and has the source tree, not a copy.
quick: NEEDS = --editable=.[quick,$(LIBRARIES)]
quick: VENV = $(QUICK)
quick: $(QUICK)/made ## what to run while working: the tests of the core, in a minute, without servers, Java and browser
	$(RUN) CI= $(PYTEST) --numprocesses auto --quiet $(QUICK_TESTS)

$(QUICK)/made: setup.cfg
	$(fresh)
	@touch $@

test: NEEDS = .[test]
test: ## every test, against a real nats-server, and with Spark where there is Java
	$(fresh)
	$(RUN) python -m tests.support.spark
	$(RUN) python -m tests.support.streaming_programs
	$(RUN) python -m tests.support.iceberg_spark
	$(RUN) $(PYTEST) --cov --cov-report= $(PROOFS)
	$(RUN) coverage report --include='$(PROVEN)' --fail-under=100 >$(VENV)/coverage.txt || \
		{ cat $(VENV)/coverage.txt; echo 'make test: $(PROVEN) must be covered whole' >&2; exit 1; }
	$(RUN) $(PYTEST) --durations=10 $(PROOFS:%=--ignore=%)
	$(RUN) $(PYTEST) --quiet --kernel $(BOTH_WAYS) >$(VENV)/kernel.txt || { cat $(VENV)/kernel.txt; exit 1; }

lowest: NEEDS = uv
lowest: ## tests with the lowest versions that setup.cfg allows, of all requirements
	$(fresh)
	$(RUN) uv pip install --quiet --python $(VENV) --resolution lowest-direct '.[all,quick]'
	$(RUN) CI= $(PYTEST) --quiet $(LOWEST_TESTS)

matrix: ## the quick tests on each Python of PYTHONS, and a line for each
	@failed=; for python in $(PYTHONS); do \
		version=$$($$python -c 'import platform, sys; print(platform.python_version() + sys.abiflags)' || echo none); \
		$(MAKE) --no-print-directory quick PYTHON=$$python QUICK=.venv-quick-$$version >.venv-matrix.txt 2>&1 && \
			status=passed || { status=FAILED failed=yes; cat .venv-matrix.txt; }; \
		echo "$$python ($$version): $$status, $$(tail -n 1 .venv-matrix.txt)"; \
	done; rm -f .venv-matrix.txt; [ -z "$$failed" ]

dist: NEEDS = build
dist: ## the sdist and the wheel, built twice and equal, checked, installed and tried; URL and TAG as in a release
	$(fresh)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-compile twine
	$(RUN) python -m tests.support.distribution --url '$(URL)' --tag '$(TAG)'
	$(RUN) twine check --strict dist/*
	$(RUN) python -m tests.support.installed

stan: NEEDS = pytest
stan: ## build nats-streaming-server and stan.go for the tests, with Go, once
	$(fresh)
	$(RUN) python -m tests.support.streaming_programs

nats: NEEDS = .[test]
nats: ## build the nats command for the tests of interoperability, with Go, once
	$(fresh)
	$(RUN) python -m tests.support.nats_command

lint: NEEDS = .[lint,test]
lint: ## formatting, style, types, who imports whom, and spelling
	$(fresh)
	$(RUN) $(BLACK) --check --diff $(CODE)
	$(RUN) isort --quiet --check --diff $(CODE)
	$(RUN) flake8 $(CODE)
	$(RUN) mypy --no-error-summary $(TYPED)
	$(RUN) lint-imports --no-logo
	$(RUN) codespell $(PROSE)

format: NEEDS = .[lint]
format: ## rewrite the code as lint wants it
	$(fresh)
	$(RUN) $(BLACK) $(CODE)
	$(RUN) isort --quiet $(CODE)

docs: NEEDS = .[docs]
docs: ## build the pages of docs/ as a site in build/site; a dead link fails
	$(fresh)
	$(RUN) NO_MKDOCS_2_WARNING=1 mkdocs build --quiet --strict
	@echo 'make docs: open build/site/index.html'

MAN = from click_man.core import write_man_pages as write; from dissect.nats.cli import cli, version; \
	write("nats-dissect", cli, version=version(), target_dir="build/man")

man: NEEDS = .[dissect,docs]
man: ## write the man pages of nats-dissect and its commands to build/man
	$(fresh)
	@mkdir -p build/man
	$(RUN) python -c '$(MAN)'
	@echo 'make man: try man build/man/nats-dissect.1'

bench: NEEDS = .[bench,test]
bench: ## figures of speed, beside those of others
	$(fresh)
	$(RUN) python -m pytest -m bench -s -p no:randomly --timeout=600 tests/bench

table: NEEDS = .[bench,test]
table: ## the figures of the kernel, beside tshark and Python alone; ROWS='--quick' is a short run, or name rows
	$(fresh)
	$(RUN) python -m tests.bench.table $(ROWS)

fuzz: NEEDS = .[test]
fuzz: ## feed the codec any bytes, and the dissector damaged captures, for SECONDS=60 each
	$(fresh)
	$(RUN) python -m tests.protocol.fuzz $(SECONDS)
	$(RUN) python -m tests.protocol.fuzz_streaming $(SECONDS)
	$(RUN) python -m tests.dissector.fuzzing.captures $(SECONDS)
	$(RUN) python -m tests.dissector.fuzzing.layers $(SECONDS)
	$(RUN) python -m tests.dissector.fuzzing.kernel $(SECONDS)

soak: NEEDS = .[test]
soak: ## clients on a bad network, with servers that restart, for SECONDS=60 each, every message accounted for
	$(fresh)
	$(RUN) python -m tests.client.soak $(SECONDS)
	$(RUN) python -m tests.support.streaming_programs
	$(RUN) python -m tests.streaming.soak $(SECONDS)
	$(RUN) python -m tests.jetstream.soak $(SECONDS)

chaos: NEEDS = .[test]
chaos: ## a client among forks, signals, finalizers, executors and outages, for SECONDS=60, all accounted for
	$(fresh)
	$(RUN) python -m tests.client.chaos $(SECONDS)

growth: NEEDS = .[test]
growth: ## one client under mixed load, for SECONDS=60 (3600 say more): whether its memory grows
	$(fresh)
	$(RUN) python -m tests.client.growth $(SECONDS)

captures: NEEDS = .[bench,test]
captures: ## record samples/captures again: needs root and more, see CONTRIBUTING.md
	$(fresh)
	$(RUN) python -m tests.support.record

pictures: NEEDS = .[test]
pictures: ## draw docs/pictures again: needs Graphviz, Chromium and Prometheus
	$(fresh)
	$(RUN) python -m tests.support.pictures
	$(RUN) python -m tests.support.report_pictures
	$(RUN) python -m tests.support.dashboard_picture

clean: ## remove everything that is made from the sources
	rm -rf .venv-* build dist *.egg-info .coverage .hypothesis .mypy_cache .pytest_cache .import_linter_cache
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +
