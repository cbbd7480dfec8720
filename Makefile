# Each of these does all its own set-up: nothing but make and Python 3.11 or newer is needed.

PYTHON ?= python3
VENV ?= .venv
EXTRA ?= dev
WORKERS ?= auto
PYTEST_OPTIONS ?=

BIN := $(VENV)/bin
# Not another Python's modules; and what was compiled once is kept: hundreds of processes import the same.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

define HELP
make test      all quick checks of every claim, as a change must pass them (some minutes)
make demo      the whole loop, live: a collector, thousands of installs, truth beside estimate (about a minute)
make check     what a machine can say of the code at a glance: ruff, mypy, who imports whom
make docs      these documents as a site, in build/site
make bench     hubbub beside its peers and the limit, one table (20 minutes; QUICK=1: three; ONLY=client|accuracy|...)
make mutants   100 small mistakes planted in the code, one by one: the tests must notice each (an hour; resumes)
make newest    as make test, with the newest version of everything that is installed, whatever constraints.txt says
make proof     the long, full-size form of the claims; resumes where it stopped, ends with all its figures
make stated    the part of it that holds intervals, detections and plans against what is found (half an hour, two cores)
make pictures  screenshots of the dashboard, for docs/pictures; needs chromium
make clean     removes all that these have made

PYTHON=/path/to/python3 chooses the Python (now: $(PYTHON)), VENV=folder where its environment is (now: $(VENV)),
WORKERS=n how many processes test, PYTEST_OPTIONS="tests/protocol -x" what pytest is told besides.
endef

.PHONY: help test demo check docs bench mutants newest proof stated pictures clean environment

help:
	$(info $(HELP))
	@:

# Tests that share something costly share a file, and a file stays with one worker; tests/conftest.py orders them.
test: environment
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder $(PYTEST_OPTIONS)

demo: environment
	@$(BIN)/hubbub demo --once --no-browser

check: environment
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: environment
	$(BIN)/python -m sphinx -q -W --keep-going -n -b html -c docs -d build/doctrees . build/site
	@echo "open build/site/index.html"

# Peers have environments of their own, in .bench, made once.
bench: environment
	@$(BIN)/python -m tests.bench.run $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

mutants: environment
	$(BIN)/python -m tests.quality.mutants

newest:
	rm -rf .venv-newest
	$(MAKE) test VENV=.venv-newest NEWEST=1

# One after the other: some measure the machine, and must have it to themselves. Those that do not have run by then;
# what failed there fails here once more.
proof: environment
	$(if $(PYTEST_OPTIONS),,-$(MAKE) stated)
	$(BIN)/python -m pytest -m proof --resume -v $(PYTEST_OPTIONS)

# Arithmetic alone, so that two can run at once.
STATED := $(addprefix tests/analysis/,test_regimes.py test_flag_enumeration.py test_uneven_weeks.py test_few_installs.py \
	test_comparison.py test_quantile_changes.py test_stacked_definitions.py test_alerts.py test_distribution.py planning \
	estimation/test_learnt_guesses.py estimation/test_left_out.py estimation/test_shares.py kinds/test_categorical.py \
	kinds/test_string.py) tests/protocol/test_optimality.py

stated: environment
	$(BIN)/python -m pytest -m proof --resume -v --numprocesses=2 --dist=worksteal $(STATED)

pictures: environment
	HUBBUB_NEED_BROWSER=1 HUBBUB_PICTURES=docs/pictures $(BIN)/python -m pytest tests/dashboard/test_pictures.py $(PYTEST_OPTIONS)

clean:
	rm -rf .venv .venv-* .bench .mutants .proof .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment:
	@$(PYTHON) tools/environment.py --venv "$(VENV)" --extra $(EXTRA) $(if $(NEWEST),--newest)
