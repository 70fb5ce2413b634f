# Everything a developer types. Each target sets up what it needs first: Python 3.11+ and make are enough to begin.

# The first interpreter that is new enough; python3 comes first, so that an active environment wins.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
RUN := .venv/bin

.PHONY: help demo demo-bootstrap test check bench bench-rolling soak soak-cluster lock clean setup cluster-up cluster-down

help:
	@echo 'make demo    word count on a real Kafka broker over real input, verified'
	@echo 'make demo-bootstrap  the same beginning with history: Spark, Kafka and an object store, verified and audited'
	@echo 'make test    every check and every test, on a real broker and, as root, a real Kubernetes'
	@echo 'make check   format, lint, types, import contracts, sizes'
	@echo 'make bench   side by side with Kafka Streams and Quix Streams; ONLY=W3 for one workload'
	@echo 'make soak    seeded faults on real instances and a real broker; RUNS=50 SEED=1 GUARANTEE=both REMOTE=1'
	@echo 'make soak-cluster  rolling restarts with faults on a real Kubernetes, as root; RUNS=20 SEED=1'
	@echo 'make bench-rolling what rolling restarts cost there, with the gate and without; ONLY=wordcount'
	@echo 'make cluster-up    a real Kubernetes on this machine with the images, Kafka and S3; export $$(make cluster-up)'
	@echo 'make cluster-down  stops it and forgets what was in it'
	@echo 'make lock    resolves the dependencies anew into requirements.lock and those of the images (needs uv)'
	@echo 'make clean   removes what the targets made in this tree (downloads stay in the cache)'

demo: setup
	@$(RUN)/python tools/demo.py

demo-bootstrap: setup
	@$(RUN)/python tools/bootstrap_demo.py

# Most tests wait for somebody: JOBS=3 is a quarter faster on two cores. Tests of the cluster come last and alone: there
# is one on a machine, and some of them measure gaps of a second.
test: setup check
	@PYTHONPATH=tools $(RUN)/python -m cluster build
	@$(RUN)/python -m pytest -n $(or $(JOBS),auto) --maxprocesses 4 --dist worksteal --durations=15 --ignore tests/cluster
	@$(RUN)/python -m pytest --durations=10 tests/cluster

check: setup
	@$(RUN)/ruff format --check --quiet .
	@$(RUN)/ruff check --quiet .
	@$(RUN)/mypy
	@$(RUN)/lint-imports --no-logo
	@$(RUN)/python tools/sizes.py

bench: setup
	@$(RUN)/python -m benchmarks.$(if $(filter BOOTSTRAP,$(ONLY)),bootstrap,run $(if $(ONLY),--only $(ONLY)))

# A run takes about 40 seconds. A failed seed tells where its logs are; RUNS=1 SEED=n repeats it.
soak: setup
	@PYTHONPATH=tests/soak:tests/support:tools $(RUN)/python -m soak --runs $(or $(RUNS),50) --seed $(or $(SEED),1) \
		$(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(if $(REMOTE),--remote)

# A run takes about 30 seconds; one application for all of them.
soak-cluster: setup
	@PYTHONPATH=tests/soak:tests/support:tools $(RUN)/python -m cluster_soak --runs $(or $(RUNS),20) --seed $(or $(SEED),1)

bench-rolling: setup
	@PYTHONPATH=tests/support:tools $(RUN)/python -m benchmarks.rolling $(if $(ONLY),--only $(ONLY))

# stdout has the two lines that a shell takes over and nothing else.
cluster-up cluster-down:
	@$(MAKE) --no-print-directory setup >&2
	@PYTHONPATH=tools $(RUN)/python -m cluster $(@:cluster-%=%)

# Without --upgrade uv keeps what is locked already and changes only what pyproject.toml asks for. An image gets its part
# of the same versions.
COMPILE = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
lock:
	@$(COMPILE) $(LOCK_OPTIONS) --extra operator --extra spark --extra dev --output-file requirements.lock pyproject.toml
	@$(COMPILE) --constraints requirements.lock --output-file images/runtime.lock pyproject.toml
	@$(COMPILE) --constraints requirements.lock --extra operator --output-file images/operator.lock pyproject.toml
	@$(COMPILE) --constraints requirements.lock --extra spark --output-file images/spark.lock pyproject.toml
	@printf 'hatchling\nsetuptools\nwheel\n' | $(COMPILE) --constraints requirements.lock --output-file images/build.lock -

clean:
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or newer is needed and none was found on PATH' >&2; exit 1; }
	@"$(PYTHON)" tools/bootstrap.py
