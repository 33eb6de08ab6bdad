# Every verb that people, hooks and CI use. `make` alone lists them.
#
# Each prepares the virtual environment first, which costs nothing when it is there. Another interpreter:
# make PYTHON=/path/to/python3.13. Arguments for pytest: make unit ARGS='-k pool -x'.

PYTHON ?= python3
ARGS ?=
WORKERS ?= auto
# What `make lowest` runs; CI leaves the last out, which takes longer than it finds.
LOWEST ?= tests/unit tests/contract tests/integration
BIN := .venv/bin
# Where `make install` puts things; DESTDIR goes before each, for packagers.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
PYTEST = $(BIN)/python -m pytest
LOCK = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--custom-compile-command 'make lock' $(if $(UPGRADE),--upgrade)
COMPILE = $(LOCK) pyproject.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help run test check unit contract integration e2e e2e-kubelet bench soak lowest install audit sbom wheels proto proto-check \
	format lock clean venv

help: ## List the verbs
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: venv ## See it work: an embedded node, a sample pod, everything in memory
	@$(BIN)/memif-device-plugin demo

test: check unit ## Everything that must hold before a change is merged; CI runs this
	$(PYTEST) tests/contract tests/integration tests/e2e --numprocesses $(WORKERS) $(ARGS)

check: venv proto-check ## Format, lint, types, architecture, generated code; changes nothing
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/buf lint
	$(BIN)/python tools/audit.py

unit: venv ## Are the rules right? Covers every branch of the domain
	$(PYTEST) tests/unit --numprocesses $(WORKERS) $(if $(ARGS),$(ARGS),--cov --cov-fail-under=100)

contract: venv ## Does each adapter, and each fake, keep its port's promises?
	$(PYTEST) tests/contract $(ARGS)

integration: venv ## Does the whole daemon run, on real sockets?
	$(PYTEST) tests/integration $(ARGS)

e2e: venv ## Does it work with the real programs around it?
	$(PYTEST) tests/e2e $(ARGS)

e2e-kubelet: venv ## Does it work with a real kubelet? KUBELET=/path/to/kubelet; writes build/e2e-kubelet.md
	$(if $(KUBELET),KUBELET='$(KUBELET)' $(PYTEST) tests/e2e_kubelet $(ARGS),@echo 'KUBELET names no kubelet: nothing is run')

bench: venv ## Measure what we promise, as ratios to a bare baseline
	$(PYTEST) tests/bench --capture=no $(ARGS)

soak: venv ## Let time pass: 500 restarts, 10 000 histories, kills; takes minutes (SOAK_SEED=... repeats histories)
	$(PYTEST) tests/soak --capture=no $(ARGS)

lowest: venv ## Run the tests on the oldest dependencies that we admit
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python build/lowest
	$(BIN)/uv pip install --quiet --python build/lowest --resolution lowest-direct --group test --editable .
	build/lowest/bin/python -m pytest $(LOWEST) --numprocesses $(WORKERS) $(ARGS)

install: venv ## Install the program in an environment of its own, with units for systemd (PREFIX, SYSCONFDIR, DESTDIR)
	$(BIN)/python tools/install.py --destdir '$(DESTDIR)' --prefix '$(PREFIX)' --sysconfdir '$(SYSCONFDIR)'

audit: venv ## Is anything known against what the daemon is installed with?
	$(BIN)/python tools/audit.py

sbom: venv ## List what the daemon is installed with in build/sbom.json, as CycloneDX
	@mkdir -p build
	$(BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml --output-reproducible \
		--output-format JSON --output-file build/sbom.json

wheels: venv ## Fetch what deploy/Dockerfile installs into build/wheels, for a build without network
	$(BIN)/python -m pip download --quiet --disable-pip-version-check --require-hashes --only-binary :all: \
		--dest build/wheels --requirement requirements.lock --requirement requirements-build.lock

format: venv ## Format the code and mend what the linter can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

proto: venv ## Generate adapters/_pb from proto/
	$(BIN)/python tools/proto.py

proto-check: venv
	$(BIN)/python tools/proto.py --check

lock: venv ## Write the lock files; with UPGRADE=1, take newer releases
	$(COMPILE) --group dev --output-file requirements-dev.lock
	$(COMPILE) --constraint requirements-dev.lock --no-annotate --output-file requirements.lock
	$(LOCK) --group build --constraint requirements-dev.lock --no-annotate --output-file requirements-build.lock

clean: ## Remove everything that the other verbs made, .venv included
	rm -rf .venv build dist .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@$(PYTHON) tools/bootstrap.py
