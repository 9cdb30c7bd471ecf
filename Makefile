# `make demo` is all that a newcomer needs; `make help` lists the rest. Needs Linux, make and Python 3.11 or newer.

PYTHON ?= python3
# An existing environment keeps its engine.
ENGINE ?= $(if $(wildcard .venv/.cuda),cuda,cpu)
# Asked for torch alone, and only where pip's own index has no CPU build of it.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
DEMO ?= --budgets 64,256,1k,4k --limit 48 --out runs/demo --clean

$(if $(filter cpu cuda,$(ENGINE)),,$(error ENGINE is cpu or cuda, not '$(ENGINE)'))

RUN := .venv/bin/python -m
PIP := $(RUN) pip --disable-pip-version-check --no-input
SOURCES := reasoning verifiers rl eval benchmarks tests

define CHECK_PYTHON
import sys
seen = "$(PYTHON) is Python %d.%d on %s" % (sys.version_info[0], sys.version_info[1], sys.platform)
if sys.version_info < (3, 11): sys.exit(seen + "; 3.11 or newer is needed. Name one: make install PYTHON=python3.12")
if not sys.platform.startswith("linux"): sys.exit(seen + "; vLLM has wheels for Linux only.")
endef
export CHECK_PYTHON

.DEFAULT_GOAL := help
.PHONY: help install demo test check clean
.NOTPARALLEL:

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18
	@echo "Variables: PYTHON=$(PYTHON)  ENGINE=$(ENGINE) (or cuda)  DEMO='$(DEMO)'"

install: .venv/.$(ENGINE) ## make .venv with the engine and all that it needs (2.2 GB, 1-3 minutes)

demo: install ## accuracy against thinking tokens of the bundled model: a table and a plot
	$(RUN) reasoning.eval $(DEMO)

test: .venv/.dev ## install pytest and the like, and run the tests
	$(RUN) pytest -q

check: .venv/.dev ## lint, format, types and the import contracts
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) ty check
	.venv/bin/lint-imports

clean: ## remove .venv and caches; runs/ stays
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +

.venv/.made:
	@$(PYTHON) -c "$$CHECK_PYTHON"
	@echo "[1/4] .venv from $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@touch $@

.venv/.cpu: .venv/.made requirements/cpu.txt pyproject.toml
	@test ! -e .venv/.cuda || { echo ".venv holds the CUDA engine; run make clean before changing to ENGINE=cpu" >&2; exit 2; }
	@torch=$$(sed -n '/^torch==/p' requirements/cpu.txt); echo "[2/4] $$torch (190 MB)"; \
	  $(PIP) install --no-deps "$$torch" 2>/dev/null || { \
	    echo "pip's own index has no $$torch: taking it from $(TORCH_INDEX)"; \
	    $(PIP) install --no-deps --index-url "$(TORCH_INDEX)" "$$torch"; } || { \
	    echo "No $$torch there either. Name an index that has it: make install TORCH_INDEX=URL" >&2; exit 1; }
	@echo "[3/4] vLLM and the libraries (330 MB)"
	@# A dozen at a time: pip says nothing while it unpacks and compiles what it has fetched.
	@grep -v '^#' requirements/cpu.txt | xargs -n 12 sh -c '$(PIP) install --no-deps "$$@" || exit 255' pip
	@echo "[4/4] this project"
	@$(PIP) install -q --no-deps --no-build-isolation -e .
	@touch $@

.venv/.cuda: .venv/.made pyproject.toml
	@test ! -e .venv/.cpu || { echo ".venv holds the CPU engine; run make clean before changing to ENGINE=cuda" >&2; exit 2; }
	@echo "[2/4] vLLM for CUDA, torch and the libraries (several GB)"
	@$(PIP) install -e '.[cuda]'
	@touch $@

.venv/.dev: .venv/.$(ENGINE) requirements/dev.txt
	@$(PIP) install -q --no-deps -r requirements/dev.txt
	@touch $@
