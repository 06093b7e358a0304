# The tasks of this checkout. CI calls `check` and `test`, and nothing that you could not.

PYTHON ?= python3
BIN := .venv/bin
CLI := $(BIN)/sandbox-skills
DATA ?= .state/data
TARGET ?= slim

# A checkout keeps what it makes to itself; the installed program uses the user's own directories.
export SANDBOX_SKILLS_DATA_DIR ?= $(CURDIR)/$(DATA)

.DEFAULT_GOAL := help
.PHONY: help setup docker docker-stop image bubblewrap gvisor chromium demo fmt lint type layers check test unit redteam bench bench-check fuzz soak lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

# The environment is made anew when what it is made from has changed.
.venv/.ready: requirements.lock pyproject.toml
	@sh runner-image/host-setup.sh python $(PYTHON)
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: .venv/.ready ## Make .venv with the pinned dependencies

docker: setup ## Use the Docker Engine that answers, or install and start one (ENGINE_SETUP=no forbids)
	@sh runner-image/host-setup.sh start

docker-stop: ## End the Docker Engine that `make docker` started
	@sh runner-image/host-setup.sh stop

image: docker ## Build the runner image, unless it is there (TARGET=full for the large one)
	@$(CLI) image build --target $(TARGET)

demo: image ## Run a sample skill in a sandbox, and watch what is blocked
	@$(CLI) demo

fmt: setup ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: setup
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python

layers: setup
	$(BIN)/lint-imports

check: lint type layers ## Lint, types, import layers

NO_NETWORK := unshare --net $(if $(filter-out 0,$(shell id -u)),--map-root-user)

# Unit tests get no network at all: one that reaches for it fails.
unit: setup ## The tests that need no Docker
	$(NO_NETWORK) $(BIN)/pytest tests/unit

bubblewrap: ## See that bubblewrap is there, whose engine the tests try as well
	@sh runner-image/host-setup.sh bubblewrap

gvisor: ## See that gVisor's runsc is there, which the attacks are tried on as well
	@sh runner-image/host-setup.sh gvisor

chromium: ## See that Chromium is there, in which the dashboard is tried
	@sh runner-image/host-setup.sh chromium

test: image bubblewrap chromium unit ## Every test, the Docker ones included
	@sh runner-image/host-setup.sh gvisor || echo 'gVisor is not tried here'
	@sh runner-image/host-setup.sh crun || echo 'crun is not tried here'
	$(BIN)/pytest tests --ignore=tests/unit
	$(BIN)/pytest tests/contract/test_process_contract.py tests/contract/test_sessions_contract.py --uvloop
	$(CLI) test skills

redteam: image bubblewrap gvisor ## Attack every engine, and write what came of it into the README
	$(BIN)/pytest tests/security --matrix README.md

full-tools: ## Build the large image, and see that its tools work under the filter of calls (minutes, 2.3 GB)
	@$(MAKE) --no-print-directory image TARGET=full
	$(BIN)/pytest tests/integration/full_image.py

bench: image bubblewrap ## Measure, and compare with the figures that must be reached
	$(BIN)/python -m tests.bench

bench-check: image bubblewrap ## Measure, and fail where a ratio got a quarter worse
	$(BIN)/python -m tests.bench --check

MINUTES ?= 4

# The fuzzer is large and for this alone: it is no part of the environment.
.state/fuzz/lib/.ready: tests/fuzz/requirements.txt | .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --upgrade --target $(@D) -r $<
	@touch $@

fuzz: setup .state/fuzz/lib/.ready ## Give what reads frames and archives bytes that reach new lines of it (MINUTES=4)
	PYTHONPATH=.state/fuzz/lib $(BIN)/python -m tests.fuzz --minutes $(MINUTES)

SOAK_MINUTES ?= 30

soak: image ## Let 8 tenants work on the daemon while it is killed and Docker is started again (SOAK_MINUTES=30)
	$(BIN)/python -m tests.soak --minutes $(SOAK_MINUTES)

lock: setup ## Pin the dependencies again, without any index address
	$(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --extra dev --extra mcp --extra serve --extra test --strip-extras --no-header \
	  --no-emit-options -o requirements.lock pyproject.toml

clean: ## Remove what was made here; Docker and its images stay, and .state while its engine runs
	@if sh runner-image/host-setup.sh running; then \
	  echo 'the Docker Engine of `make docker` runs: .state stays until `make docker-stop`'; \
	else \
	  chmod -R u+rwX .state 2> /dev/null; rm -rf .state; \
	fi
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
