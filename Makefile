SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# Where this is set, each process of each cluster in the tests would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
DATA ?= ./data
PORT ?=
LOGSTORES ?=
SEED ?= 1
SEEDS ?=
HOURS ?= 1
PAIRS ?= 5
FUZZ_SECONDS ?= 60
TIMES ?= 10
FUZZ_TARGET ?=
FUZZ_JOBS ?= 1
CELLS ?=
SECONDS ?=
ROUNDS ?=
CLIENT ?=
BROKER ?=
MOVE ?=
PARTITIONS ?=
PRODUCERS ?=
RUNS ?=
LOAD ?=
BOOTSTRAP ?=
IMAGE ?= barnabas
EXTRAS ?=
STEPS ?=
PROFILE ?=
OF ?=
BASE_BRANCH ?=
BASE ?= python:3.12-slim
JAVA ?= eclipse-temurin:17-jdk
WORKERS ?= 3
TIER ?=
UNIT := tests/unit tests/property tests/regressions tests/scenarios tests/fuzz tests/sim tests/crash
PYTEST := $(BIN)/python -m pytest -q
# Cases of integration mostly wait: there are more workers than cores, and a module stays on one of them.
PYTEST_BY_MODULE := $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup up down status clean check test test-deep durations jars lint style imports type format proto proto-check unit sim sim-explore mutants crash crash-mutants crash-loop fuzz faults rolling-kills rolling-groups moving-leaders blackout rolling-etcd costly-requests record-clients mixed-versions etcd integration compat bench bench-replicated bench-failover bench-groups bench-metrics package package-test pipeline pipeline-test pipeline-million tables bench-freshness bench-pipeline slow-hop peer registry image pipeline-image chart manifests k8s-e2e pipeline-k8s ci

help: ## Show this help
	@echo "Barnabas: a Kafka broker, taken apart. The commands:"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Settings: LOGSTORES=3 (up), PORT=9092 (up), DATA=./data (up, down, status, clean), SEED=1 or SEEDS=1..50 (sim), HOURS=200 (sim-explore),"
	@echo "          PAIRS=5 (bench), FUZZ_SECONDS=600 FUZZ_TARGET=requests (fuzz), IMAGE=barnabas BASE=python:3.12-slim (image)"

setup: ## Make .venv with everything to work on Barnabas
	@scripts/setup dev

up: ## Start a cluster here, in the background; LOGSTORES=3 for three
	@scripts/setup run
	@$(BIN)/barnabas up --data-dir "$(DATA)" $(if $(PORT),--port $(PORT)) $(if $(LOGSTORES),--logstores $(LOGSTORES))

down: ## Stop it; the data stays
	@scripts/setup run
	@$(BIN)/barnabas down --data-dir "$(DATA)"

status: ## Say what runs, and what is wrong
	@scripts/setup run
	@$(BIN)/barnabas status --data-dir "$(DATA)"

clean: ## Stop it and forget the data
	@if [ -e "$(DATA)/cluster.json" ]; then $(MAKE) down && rm -rf "$(DATA)" && echo "forgot $(DATA)"; \
	else echo "no cluster in $(DATA): nothing to forget"; fi

check: setup ## While working, 90 seconds at most: style, types, import rules, the tests nearest to what changed since BASE_BRANCH=main
	@$(MAKE) -j 2 --output-sync=target style type imports
	@$(BIN)/python -m tests.changed $(if $(BASE_BRANCH),--base $(BASE_BRANCH))

test: setup etcd jars ## Lint, all unit tests, and of seeds, examples and integration a few of each kind; test-deep runs the rest
	@$(MAKE) lint
	@echo "== tests"
	@$(PYTEST_BY_MODULE) -m "not deep" tests/integration $(UNIT)

test-deep: ## Everything, with many more examples and seeds; for hours. What each step came to is saved in tests/results/deep.md
	@scripts/test-deep

durations: setup etcd jars ## Measure the cases of make test, into tests/durations.tsv; OF=cpu on a busy machine
	@$(PYTEST_BY_MODULE) -m "not deep" -p tests.durations --ledger-of $(or $(OF),wall) tests/integration $(UNIT)

lint: setup ## ruff, mypy, import rules, generated code
	@echo "== lint"
	@$(MAKE) -j 2 --output-sync=target type style proto-check imports

style: setup ## ruff
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

imports: setup ## The import rules
	@PYTHONPATH=. $(BIN)/lint-imports

type: setup ## mypy, strict
	@$(BIN)/mypy

format: setup ## Put the code into its one format
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format .

proto: setup ## Generate the code beside protos/**/*.proto
	@scripts/proto

proto-check: setup ## Fail when generated code differs from its .proto, or a released version would misread a message
	@scripts/proto check
	@scripts/proto-compat

unit: setup ## Unit and property tests, regressions, scenarios, some seeds; PROFILE=deep for all seeds and many examples
	@echo "== unit and property tests"
	@$(PYTEST) -n 2 $(if $(PROFILE),--hypothesis-profile=$(PROFILE),-m "not deep") $(UNIT)

sim: setup ## Simulate a whole cluster from a seed: SEED=42 replays exactly, SEEDS=1..50 runs many
	@echo "== simulation"
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim $(if $(SEEDS),--seeds $(SEEDS),--seed $(SEED))

sim-explore: setup ## Simulate HOURS=200 from seeds that were never run, into docs/simulation-ledger.md
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --explore --hours $(HOURS)

mutants: setup ## Break one rule at a time in the cores: does the simulation see it?
	@$(BIN)/python -m tests.sim.mutants

record-clients: setup peer ## Record what the real producers do with scripted brokers: CLIENT=java|librdkafka for one
	@$(BIN)/python -m tests.sim.clients.producers.record $(if $(CLIENT),--client $(CLIENT)) \
		$(if $(SCRIPT),--script "$(SCRIPT)")

crash: setup ## Crash the storage and look, again and again: SEEDS=1..2000 runs many, SEED=42 one, made small if it fails
	@echo "== crashes"
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.crash \
		$(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED) --shrink,--seeds $(or $(SEEDS),1..100))

crash-mutants: setup ## Break one rule of the storage at a time: do crashes show it?
	@$(BIN)/python -m tests.crash.mutants

crash-loop: setup ## Power cuts on a real file system, on a loop device (needs root)
	@$(BIN)/python -m tests.crash.loop_device

fuzz: ## Fuzz every parser: FUZZ_SECONDS=600 in all, FUZZ_TARGET=requests for one, FUZZ_JOBS=2 at a time
	@scripts/setup fuzz
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS) $(if $(FUZZ_TARGET),--target $(FUZZ_TARGET))

faults: setup etcd ## Real faults on real processes, cell by cell: CELLS=kill-leader,bridge for some, SECONDS=30 each
	@echo "== faults"
	@$(BIN)/python -m tests.faults $(if $(CELLS),--cells $(CELLS)) $(if $(SECONDS),--seconds $(SECONDS))

rolling-kills: setup etcd ## kill -9 of each process in turn, TIMES=10 each, under producers that never stop
	@$(BIN)/python -m tests.faults.rolling_kills --times $(TIMES) --save tests/faults/results/rolling-kills.md

rolling-groups: setup etcd ## Each process restarted while a group of ten reads and commits; KILL=1: by kill -9
	@$(BIN)/python -m tests.faults.rolling_groups $(if $(filter command,$(firstword $(origin TIMES))),--times $(TIMES)) \
		$(if $(KILL),--kill) --save tests/faults/results/rolling-groups$(if $(KILL),-kill).md

moving-leaders: setup etcd ## Leaders move under CLIENT=java, librdkafka or franz-go at BROKER=barnabas, kafka or both: MOVE=reassign RUNS=5 LOAD=1
	@case "$(BROKER)" in kafka|both) scripts/peer;; esac
	@$(BIN)/python -m tests.faults.moving_leaders --save --client $(or $(CLIENT),java) --broker $(or $(BROKER),barnabas) \
		$(if $(MOVE),--move $(MOVE)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PARTITIONS),--partitions $(PARTITIONS)) \
		$(if $(PRODUCERS),--producers $(PRODUCERS)) $(if $(RUNS),--runs $(RUNS)) $(if $(LOAD),--load $(LOAD)) \
		$(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED))

blackout: setup etcd ## Every process killed at once under load and started again, ROUNDS=5: phases up to the first acknowledged write
	@$(BIN)/python -m tests.faults.blackout --rounds $(or $(ROUNDS),5) --save tests/faults/results/blackout.md

rolling-etcd: setup etcd ## Each of three etcd members restarted in turn under producers, TIMES=2 each; KILL=1: by kill -9
	@$(BIN)/python -m tests.faults.rolling_etcd $(if $(filter command,$(firstword $(origin TIMES))),--times $(TIMES)) \
		$(if $(KILL),--kill) --save tests/faults/results/rolling-etcd$(if $(KILL),-kill).md

costly-requests: setup etcd ## One client sends the costliest requests of each API key: how long does another wait? BOOTSTRAP=host:port for another broker
	@$(BIN)/python -m tests.costly $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP),--save tests/faults/results/costly-requests.md)

mixed-versions: setup etcd ## A rolling upgrade from the last release and back, under producers and a group
	@$(BIN)/python -m tests.mixed_versions --save tests/faults/results/mixed-versions.md

etcd: setup ## Find an etcd, or get one (Debian's package, or built with Go)
	@$(BIN)/python -c 'from barnabas.cli.etcd_binary import pick_etcd; print("etcd:", pick_etcd(print).path)'

jars:
	@if command -v java >/dev/null && command -v mvn >/dev/null; then scripts/peer; \
	else echo "no JDK and Maven here: what needs Apache Kafka's jars is skipped"; fi

integration: setup etcd jars ## Real etcd, real processes, real clients; TIER=deep for what make test leaves out
	@echo "== integration and compatibility tests"
	@$(PYTEST_BY_MODULE) $(if $(TIER),-m $(TIER)) tests/integration tests/compat

compat: setup etcd ## Real clients of every language against one logstore and three, into docs/clients.md: CLIENT=kafkajs for one
	@$(BIN)/python -m tests.compat.matrix $(if $(CLIENT),--client "$(CLIENT)")

package: setup ## Build the sdists and wheels of both distributions, barnabas and barnabas-pipeline, into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory "$(CURDIR)/dist"
	@cd pipeline && ../$(BIN)/python -m hatchling build --directory "$(CURDIR)/dist"

package-test: setup etcd ## Build both distributions, install them into empty environments, run every role and a cluster from there
	@echo "== packages"
	@$(PYTEST) tests/packaging

bench: setup peer ## Barnabas and Apache Kafka side by side, into docs/performance.md
	@$(BIN)/python -m bench --pairs $(PAIRS)

bench-replicated: setup etcd peer ## Three logstores and three brokers of Apache Kafka: RF 3, acks=all
	@$(BIN)/python -m bench.replicated --pairs $(PAIRS)

bench-failover: setup etcd ## Leaders killed, paused, stopped; 10,000 partitions: how long until others lead
	@$(BIN)/python -m bench.failover

bench-metrics: setup etcd ## What measuring requests costs, in CPU per request; BASELINE=another checkout for the other side
	@$(BIN)/python -m bench.metrics $(if $(BASELINE),--baseline $(BASELINE))

bench-groups: setup etcd peer ## Rebalances, heartbeats, commits, beside Apache Kafka's; LOGSTORES=3 for three of both
	@$(BIN)/python -m bench.groups --pairs $(PAIRS) $(if $(LOGSTORES),--logstores $(LOGSTORES))

pipeline: ## Set up Spark and what turns topics into tables, in .venv-pipeline (needs Java 17)
	@scripts/setup pipeline

pipeline-test: pipeline etcd ## The pipeline on a local Spark, against real clusters; with Maven, Spark's connector and a registry too
	@echo "== pipeline tests"
	@if command -v mvn >/dev/null; then scripts/spark-kafka && scripts/registry; \
	else echo "no Maven here: Spark's own connector and a real schema registry are left out"; fi
	@.venv-pipeline/bin/python -m pytest -q tests/unit/pipeline tests/pipeline

tables: pipeline ## A topic into a table, exactly once, until Ctrl-C: TOPIC=orders, INTO=iceberg, delta or parquet
	@test -n "$(TOPIC)" || { echo "which topic? make tables TOPIC=orders" >&2; exit 2; }
	@.venv-pipeline/bin/barnabas-pipeline tables --bootstrap-servers localhost:$(or $(PORT),9092) --topics "$(TOPIC)" \
		--into "$(or $(INTO),iceberg)" --to "$(DATA)/tables"

pipeline-million: pipeline etcd ## A million records into each format of table, the driver and a gateway killed in the middle
	@.venv-pipeline/bin/python -m tests.pipeline.million $(if $(RECORDS),--records $(RECORDS))

bench-freshness: pipeline etcd ## How old rows are when a table shows them, under a steady 1,000 records/s
	@.venv-pipeline/bin/python -m bench.table_freshness

bench-pipeline: pipeline etcd ## Rows per second of format("barnabas") and of Spark's JVM connector, side by side
	@scripts/spark-kafka
	@.venv-pipeline/bin/python -m bench.pipeline --pairs $(PAIRS)

slow-hop: setup etcd ## One of three logstores made slow under load: the metrics alone name it, into docs/slow-hop.md
	@$(BIN)/python -m bench.slow_hop

peer: ## Get Apache Kafka's jars (by Maven) to compare with
	@scripts/peer

registry: ## Get a real schema registry (Apicurio, by Maven) for the pipeline's tests
	@scripts/registry

image: ## Build a container image per role: IMAGE=barnabas BASE=python:3.12-slim EXTRAS=traces
	@for role in gateway logstore purgatory controller; do \
		docker build --file deploy/k8s/Dockerfile --build-arg BASE=$(BASE) --build-arg ROLE=$$role --build-arg EXTRAS=$(EXTRAS) \
			--tag $(IMAGE)-$$role:$$(awk -F '"' '/^version/ { print $$2 }' pyproject.toml) . || exit 1; \
	done

pipeline-image: ## Build the image of the pipeline's Spark jobs: IMAGE=barnabas BASE=python:3.12-slim JAVA=eclipse-temurin:17-jdk
	@DOCKER_BUILDKIT=1 docker build --file deploy/pipeline/Dockerfile --build-arg BASE=$(BASE) --build-arg JAVA=$(JAVA) \
		--tag $(IMAGE)-pipeline:$$(awk -F '"' '/^version/ { print $$2 }' pyproject.toml) .

chart: ## Lint the Helm chart, render it in every shape, hold it to Kubernetes' schemas
	@scripts/setup chart
	@$(PYTEST) tests/unit/deploy

manifests: ## Render the Helm chart to deploy/k8s/manifests
	@scripts/setup chart
	@scripts/manifests

k8s-e2e: setup ## Install, load, roll, break and scale on a real Kubernetes node (K8S_NODE or KUBECONFIG): STEPS=roll for some
	@$(BIN)/python -m tests.k8s $(if $(STEPS),--steps $(STEPS))

pipeline-k8s: setup pipeline ## Topics to tables on a real Kubernetes node, executors and drivers killed (K8S_NODE): STEPS=build,install,deployed for some
	@.venv-pipeline/bin/python -m tests.pipeline_k8s $(if $(STEPS),--steps $(STEPS))

ci: ## What continuous integration runs
	@.ci/run
