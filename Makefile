# benchlab: `make help` lists the targets.

PROFILE ?= quick
TARGET  ?=
STUDY   ?= all

PYTHON  ?= python3
BIN     := .venv/bin
SETUP   := .venv/.complete
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

.DEFAULT_GOAL := help
.PHONY: help setup paper test test-without-root style lint lab bench bench-attribution lock clean teardown

TEST := $(BIN)/pytest -n auto --nbval lib/tests notebooks/analysis notebooks/*.ipynb

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "PROFILE=smoke|quick|standard|paper (now: $(PROFILE)), TARGET=an inventory (now: $(or $(TARGET),each study's own)), STUDY=a study (now: $(STUDY))"

setup: $(SETUP)  ## install everything that runs in Python into .venv

# uv makes the environment from the hash-locked list; Debian keeps venv in a package of its own
$(SETUP): requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "benchlab needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(SUDO) apt-get -qq update && $(SUDO) apt-get -qq install -y python3-venv >/dev/null; }
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

paper: $(SETUP)  ## rerun what is missing, then build paper/build/paper.html and paper.pdf
	@$(BIN)/benchlab run $(STUDY) --profile $(PROFILE) $(if $(TARGET),--target $(TARGET)); code=$$?; \
	 case $$code in 0|3) $(BIN)/benchlab paper || code=$$?;; esac; exit $$code  # 3: some runs failed; the paper says which

test: style  ## check everything: style, unit, contract and integration tests, notebooks
	@$(TEST)

test-without-root: $(SETUP)  ## the tests that need neither root nor an engine, and the notebooks
	@$(TEST) -m "not machine and not root and not lint"

style: $(SETUP)  ## check how Python and notebooks are written
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .

lint: style  ## check how Ansible is written, too
	@$(BIN)/pytest -q lib/tests -m lint

lab: $(SETUP)  ## open JupyterLab with notebooks/explore.ipynb
	@$(BIN)/jupyter lab --allow-root notebooks/explore.ipynb

bench: $(SETUP)  ## measure benchlab itself, as ratios within one run
	@$(BIN)/python lib/benchmarks

bench-attribution: $(SETUP)  ## test attribution on runs with a known bottleneck (2 h)
	@$(BIN)/python lib/benchmarks/attribution

COMPILE := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate

lock: $(SETUP)  ## write requirements.lock and requirements-tpcc.lock anew from pyproject.toml
	@$(COMPILE) --group dev pyproject.toml -o requirements.lock
	@$(COMPILE) --group pyproject.toml:tpcc -c requirements.lock -o requirements-tpcc.lock

clean:  ## stop everything and delete what can be made again; measured data stays
	@[ ! -x $(BIN)/benchlab ] || $(BIN)/benchlab teardown $(if $(TARGET),--target $(TARGET))
	@rm -rf .venv paper/build .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -prune -exec rm -rf {} +

teardown: $(SETUP)  ## remove everything that benchlab put on the target; packages stay
	@$(BIN)/benchlab teardown $(if $(TARGET),--target $(TARGET)) --wipe
