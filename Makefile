# Everything here needs python3 (3.11 or newer) and nothing else: .venv is made on first use.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/pytest -p no:cacheprovider

# Processes start all the time here: where Python may not keep what it compiled, each compiles anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo dev test check format bench test-clients test-peers test-documents test-gateway test-kills \
  test-load mutants lock clean .ask-peers .let-others

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.installed ## Watch an agent triage a folder of logs (LOGS=folder takes yours)
	@$(BIN)/loopmill demo $(if $(LOGS),--path "$(LOGS)")

dev: .venv/.installed ## Start server, API and workers, restarted when a file changes
	@$(BIN)/loopmill dev

test: .venv/.tested ## Run the tests, in random order
	$(PYTEST) -n 4 --dist loadfile --no-loadscope-reorder -m "not clients and not documents and not gateway and not kills and not peers"

check: .venv/.tested ## Check format, lint, types and the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/pyright

format: .venv/.tested ## Format, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.tested ## Measure, beside peers in environments of their own
	$(BIN)/python -m bench

test-clients: .venv/.tested ## Be asked by other people's clients: curl, Node, a browser, SDKs
	@tests/clients/install
	$(PYTEST) -m clients

test-peers: .venv/.tested ## Ask other people's servers; let stock arq at our queue
	@tests/peers/install
	@$(MAKE) --no-print-directory --jobs 2 $(filter --output-sync,$(.FEATURES:%=--%)) .ask-peers .let-others

.ask-peers:
	$(PYTEST) tests/peers/providers

.let-others:
	$(PYTEST) tests/peers/test_stock_arq.py tests/peers/test_original_callbacks.py tests/kit/test_mcp.py

test-gateway: .venv/.tested ## Ask the gateway over HTTP, kill its workers
	$(PYTEST) -n 3 --dist loadfile -m gateway

test-documents: .venv/.tested ## Run the code of the public documents, and of ours
	$(PYTEST) -m documents

test-kills: .venv/.tested ## Kill processes after every event (long)
	$(PYTEST) -n 2 --dist load -m kills --timeout 900

test-load: .venv/.tested ## Answer 500 streams at once while a worker is killed (long)
	$(BIN)/python -m tests.gateway.load

mutants: .venv/.tested ## Break the pure code in small ways, and see that tests notice (long)
	$(BIN)/python -m tests.mutants

lock: .venv/.tested ## Choose the newest versions that fit, and write down names, versions, hashes
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile pyproject.toml --extra dev --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-header --no-annotate --no-emit-index-url --quiet -o requirements.lock
	$(BIN)/uv pip compile tests/peers/litellm.in --upgrade --universal --python-version 3.11 \
	  --no-header --no-annotate --no-emit-index-url --quiet -o tests/peers/litellm.txt
	@touch .venv/.tested

clean: ## Remove what was made here, .venv included
	rm -rf .venv .loopmill .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* dist

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Loopmill needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 …"; exit 1; }
	@$(PYTHON) -m venv .venv \
	  || { echo "python3 cannot make a virtual environment (Debian: apt install python3-venv)"; exit 1; }

.venv/.installed: pyproject.toml | .venv/bin/python
	@echo "installing Loopmill into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.tested: pyproject.toml requirements.lock | .venv/bin/python
	@echo "installing Loopmill and its test tools into .venv (once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --require-hashes --requirement requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	@touch .venv/.installed $@
