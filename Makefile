SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# If this were set, each process of each cluster in the tests would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
DATA ?= ./data
PORT ?=
LOGSTORES ?=
SECURE ?=
SUPERVISOR ?=
SEED ?= 1
SEEDS ?=
HOURS ?= 1
PAIRS ?= 5
TURNS ?=
SHAPE ?=
WORKLOAD ?=
PLACEMENT ?=
IN_FLIGHT ?=
QUICK ?=
STAGE ?=
FUZZ_SECONDS ?= 60
AUTHORIZATION_CASES ?= 200000
AUTHORIZATION_ROUNDS ?= 100
TIMES ?= 10
FUZZ_TARGET ?=
FUZZ_JOBS ?= 1
CELLS ?=
SECONDS ?=
ROUNDS ?=
CLIENT ?=
SUITE ?=
AGAINST ?=
LEARN ?=
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
COMPILED ?=
SIMULATED ?=
CRASHED ?=
BASE ?= python:3.12-slim
OFFLINE ?=
ETCD_IMAGE ?=
JAVA ?= eclipse-temurin:17-jdk
WORKERS ?= 3
TIER ?=
LANE ?=
# on: streams within a host go by Unix sockets, also where the fault grid has network namespaces; off: by gRPC.
WITH_LANE = $(if $(LANE),BARNABAS_LANE=$(LANE))
# Modules that take long come first, so that no worker is left with one of them at the end.
UNIT := tests/sim tests/crash tests/fuzz tests/property tests/regressions tests/scenarios tests/transcripts tests/unit tests/test_house.py
PYTEST := $(BIN)/python -m pytest -q
# Integration tests mostly wait: there are more workers than cores, and a module stays on one of them.
PYTEST_BY_MODULE := $(PYTEST) -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup up down status clean check test cases test-minutes test-deep durations jars lint style imports type format proto proto-check unit sim sim-explore sim-exceptions mutants crash crash-mutants crash-loop fuzz faults faults-transactions rolling-kills supervised-kills rolling-groups moving-leaders streams blackout rolling-etcd costly-requests record-clients mixed-versions etcd integration compat acceptance security-matrix kerberos authorization bench bench-cores bench-latency bench-failover bench-groups bench-transactions bench-omb bench-metrics bench-quotas bench-compiled compiled compiled-test contained package package-test pipeline pipeline-test pipeline-million tables bench-freshness bench-pipeline slow-hop peer registry image image-test pipeline-image chart manifests k8s-e2e pipeline-k8s ci

help: ## Show this help
	@echo "Barnabas: a Kafka broker split into four services. The commands:"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "Settings: LOGSTORES=3 (up), PORT=9092 (up), SECURE=1 (up), DATA=./data (up, down, status, clean), SEED=1 or SEEDS=1..50 (sim), HOURS=200 (sim-explore),"
	@echo "          PAIRS=5 (bench), FUZZ_SECONDS=600 FUZZ_TARGET=requests (fuzz), IMAGE=barnabas BASE=python:3.12-slim (image)"

setup: ## Create .venv with everything to work on Barnabas
	@scripts/setup dev

up: ## Start a local cluster in the background; LOGSTORES=3 for three logstores, SECURE=1 for TLS and a password, SUPERVISOR=no so that what dies stays dead. Then its cores are compiled beside it, for the next up, unless BARNABAS_CORES or CI is set
	@scripts/setup run
	@$(BIN)/barnabas up --data-dir "$(DATA)" $(if $(PORT),--port $(PORT)) $(if $(LOGSTORES),--logstores $(LOGSTORES)) $(if $(SECURE),--secure) $(if $(filter no,$(SUPERVISOR)),--no-supervisor)
	@$(BIN)/python -m scripts.compiled.beside

down: ## Stop the local cluster; its data is kept
	@scripts/setup run
	@$(BIN)/barnabas down --data-dir "$(DATA)"

status: ## Show the services of the local cluster and their problems
	@scripts/setup run
	@$(BIN)/barnabas status --data-dir "$(DATA)"

clean: ## Stop the local cluster and delete its data, and end a build of the cores that make up has begun
	@[ ! -e build/compiled.lock ] || BARNABAS_CORES=interpreted $(BIN)/python -m scripts.compiled.beside --stop
	@if [ -e "$(DATA)/cluster.json" ]; then $(MAKE) down && rm -rf "$(DATA)" && echo "deleted $(DATA)"; \
	else echo "no cluster in $(DATA): nothing to delete"; fi

check: setup ## For development, at most 90 seconds: style, types, import rules, tests nearest to the changes since BASE_BRANCH=main
	@$(MAKE) -j 2 --output-sync=target style type imports
	@$(BIN)/python -m tests.changed $(if $(BASE_BRANCH),--base $(BASE_BRANCH))

test: ## Lint, all unit tests, and a few seeds, examples and integration tests of each kind; test-deep runs the rest
	@$(MAKE) -j 2 etcd jars
	@$(MAKE) -j 2 lint cases

cases: setup etcd jars
	@echo "== tests"
	@$(PYTEST_BY_MODULE) -m "not deep" tests/integration $(UNIT)

test-deep: ## All tests, with many more examples and seeds; takes hours. Results are saved in tests/results/deep.md
	@scripts/test-deep

durations: setup etcd jars ## Measure the test cases of make test into tests/durations.tsv; OF=cpu on a busy machine
	@$(PYTEST_BY_MODULE) -m "not deep" -p tests.durations --ledger-of $(or $(OF),wall) tests/integration $(UNIT)

lint: setup ## ruff, mypy, import rules, generated code
	@echo "== lint"
	@$(MAKE) $(if $(findstring jobserver,$(MAKEFLAGS)),,-j 2) --output-sync=target type style proto-check imports

style: setup ## ruff
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet .

imports: setup ## Check the import rules
	@PYTHONPATH=. $(BIN)/lint-imports

type: setup ## mypy, strict
	@$(BIN)/mypy
	@$(BIN)/mypy bench scripts tests/faults tests/acceptance tests/transcripts

format: setup ## Format the code
	@$(BIN)/ruff check --fix --quiet . && $(BIN)/ruff format .

proto: setup ## Generate the code of protos/**/*.proto
	@scripts/proto
	@scripts/packing

proto-check: setup ## Check that generated code matches its .proto, and that released versions can read all messages
	@scripts/proto check
	@scripts/packing check
	@scripts/proto-compat

unit: setup ## Unit and property tests, regressions, scenarios, transcripts, some seeds; PROFILE=deep for all seeds and many examples
	@echo "== unit and property tests"
	@$(PYTEST) -n 2 $(if $(PROFILE),--hypothesis-profile=$(PROFILE),-m "not deep") $(UNIT)

sim: setup ## Simulate a whole cluster from a seed: SEED=42 replays one exactly, SEEDS=1..50 runs many
	@echo "== simulation"
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim $(if $(SEEDS),--seeds $(SEEDS),--seed $(SEED))

sim-explore: setup ## Simulate HOURS=200 from seeds that were never run, into docs/verify/simulation-ledger.md
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.sim --explore --hours $(HOURS) $(if $(LAST_EPOCHS),--last-epochs)

sim-exceptions: setup ## Throw exceptions at every call of the cores for HOURS=100, into docs/verify/simulation-exceptions; LEARN=1 adds to the table of what each place may end
	@[ "$$BARNABAS_CORES" = interpreted ] || BARNABAS_CORES=interpreted $(BIN)/python -m tests.sim.exceptions.throwing_build
	@[ "$$BARNABAS_CORES" = interpreted ] || export THROWING_CORES=1; \
		BARNABAS_CORES=interpreted PYTHONHASHSEED=0 $(BIN)/python -m tests.sim.exceptions $(if $(LEARN),--learn) --hours $(HOURS)

mutants: setup ## Break one rule at a time in the cores, and check that the simulation detects it
	@$(BIN)/python -m tests.sim.mutants

record-clients: setup peer ## Record how real producers behave with scripted brokers: CLIENT=java|librdkafka for one
	@$(BIN)/python -m tests.sim.clients.producers.record $(if $(CLIENT),--client $(CLIENT)) \
		$(if $(SCRIPT),--script "$(SCRIPT)")

crash: setup ## Crash the storage repeatedly and check it: SEEDS=1..2000 runs many, SEED=42 one, shrunk if it fails
	@echo "== crashes"
	@PYTHONHASHSEED=0 $(BIN)/python -m tests.crash \
		$(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED) --shrink,--seeds $(or $(SEEDS),1..100))

crash-mutants: setup ## Break one rule of the storage at a time, and check that crashes detect it
	@$(BIN)/python -m tests.crash.mutants

crash-loop: setup ## Power cuts on a real file system, on a loop device (needs root)
	@$(BIN)/python -m tests.crash.loop_device

fuzz: ## Fuzz every parser: FUZZ_SECONDS=600 in all, FUZZ_TARGET=requests, before-authentication or security for some, FUZZ_JOBS=2 at a time
	@scripts/setup fuzz
	@$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS) --jobs $(FUZZ_JOBS) $(if $(FUZZ_TARGET),--target $(FUZZ_TARGET))

faults: setup etcd ## Inject real faults into real processes, cell by cell: CELLS=kill-leader,bridge for some, SECONDS=30 each; LANE=on or off
	@echo "== faults"
	@$(WITH_LANE) $(BIN)/python -m tests.faults $(if $(CELLS),--cells $(CELLS)) $(if $(SECONDS),--seconds $(SECONDS))

faults-transactions: setup etcd ## The same under transactions, of librdkafka and of Java, exactly once: CELLS=kill-coordinator,bridge for some, SECONDS=20 each; LANE=on
	@echo "== faults under transactions"
	@$(WITH_LANE) $(BIN)/python -m tests.faults.transactions --save $(if $(CELLS),--cells $(CELLS)) $(if $(SECONDS),--seconds $(SECONDS))

supervised-kills: setup etcd ## kill -9 of each process in turn, TIMES=3 each, under the supervisor of make up: how soon each is back
	@$(BIN)/python -m tests.faults.supervised_kills $(if $(filter command,$(firstword $(origin TIMES))),--times $(TIMES)) \
		--save tests/faults/results/supervised-kills.md

rolling-kills: setup etcd ## kill -9 of each process in turn, TIMES=10 each, under continuous producers
	@$(BIN)/python -m tests.faults.rolling_kills --times $(TIMES) --save tests/faults/results/rolling-kills.md

rolling-groups: setup etcd ## Restart each process while a group of ten reads and commits; KILL=1: by kill -9
	@$(BIN)/python -m tests.faults.rolling_groups $(if $(filter command,$(firstword $(origin TIMES))),--times $(TIMES)) \
		$(if $(KILL),--kill) --save tests/faults/results/rolling-groups$(if $(KILL),-kill).md

moving-leaders: setup etcd ## Move leaders under CLIENT=java, librdkafka or franz-go at BROKER=barnabas, kafka or both: MOVE=reassign RUNS=5 LOAD=1
	@case "$(BROKER)" in kafka|both) scripts/peer;; esac
	@$(BIN)/python -m tests.faults.moving_leaders --save --client $(or $(CLIENT),java) --broker $(or $(BROKER),barnabas) \
		$(if $(MOVE),--move $(MOVE)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(PARTITIONS),--partitions $(PARTITIONS)) \
		$(if $(PRODUCERS),--producers $(PRODUCERS)) $(if $(RUNS),--runs $(RUNS)) $(if $(LOAD),--load $(LOAD)) \
		$(if $(filter command,$(firstword $(origin SEED))),--seed $(SEED))

streams: setup etcd ## Count words exactly once by Kafka Streams while KILL=logstores, each or none are killed: BROKER=barnabas SECONDS=60 SMOKE=1
	@$(if $(filter kafka,$(BROKER)),scripts/peer &&) $(BIN)/python -m tests.faults.streams --save --broker $(or $(BROKER),barnabas) \
		--kill $(or $(KILL),logstores) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SMOKE),--smoke)

blackout: setup etcd ## Kill every process at once under load and restart, ROUNDS=5: time of each phase up to the first acknowledged write
	@$(BIN)/python -m tests.faults.blackout --rounds $(or $(ROUNDS),5) --save tests/faults/results/blackout.md

rolling-etcd: setup etcd ## Restart each of three etcd members in turn under producers, TIMES=2 each; KILL=1: by kill -9
	@$(BIN)/python -m tests.faults.rolling_etcd $(if $(filter command,$(firstword $(origin TIMES))),--times $(TIMES)) \
		$(if $(KILL),--kill) --save tests/faults/results/rolling-etcd$(if $(KILL),-kill).md

costly-requests: setup etcd ## Send the costliest requests of each API key, leave all kinds of things waiting, and measure how long another client waits; BOOTSTRAP=host:port for another broker
	@$(BIN)/python -m tests.costly $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP),--save tests/faults/results/costly-requests.md)

mixed-versions: setup etcd ## Upgrade from the last release and back, rolling, under producers and a group
	@$(BIN)/python -m tests.mixed_versions --save tests/faults/results/mixed-versions.md

etcd: setup ## Find an etcd, or fetch one (Debian's package, or built with Go)
	@$(BIN)/python -c 'from barnabas_cli.etcd_binary import pick_etcd; print("etcd:", pick_etcd(print).path)'

jars:
	@if command -v java >/dev/null && command -v mvn >/dev/null; then scripts/peer; \
	else echo "no JDK and Maven here: tests that need Apache Kafka's jars are skipped"; fi

integration: setup etcd jars ## Integration tests with real etcd, processes and clients, without those that take minutes; TIER=deep for those that make test leaves out, LANE=off by gRPC alone
	@echo "== integration and compatibility tests"
	@$(WITH_LANE) $(PYTEST_BY_MODULE) -m "$(if $(TIER),$(TIER) and )not minutes" tests/integration

test-minutes: setup etcd jars ## The integration tests that take minutes: faults and restarts in turn; a part of test-deep; LANE=off by gRPC alone
	@echo "== integration tests that take minutes"
	@$(WITH_LANE) $(PYTEST_BY_MODULE) -m minutes tests/integration

security-matrix: setup etcd jars ## Clients by ways to authenticate and versions of TLS, into docs/verify/security-matrix.md: CLIENT=sarama for one
	@$(BIN)/python -m tests.compat.security $(if $(CLIENT),--client "$(CLIENT)")

kerberos: setup etcd jars ## Test GSSAPI with a real KDC; installs MIT Kerberos (Debian's packages, as root) and compiles python-gssapi before
	@scripts/kerberos
	@$(PYTEST) tests/integration/test_gssapi.py

compat: setup etcd ## Real clients of every language against one logstore and three, into docs/verify/clients.md: CLIENT=kafkajs for one; CHECK=1 runs the quick half against three and saves nothing
	@$(BIN)/python -m tests.compat.matrix $(if $(CLIENT),--client "$(CLIENT)") $(if $(CHECK),--check)

acceptance: setup etcd ## Other people's suites against three logstores, into docs/verify/acceptance.md: SUITE=kgo or SUITE="kgo javatools" for some; AGAINST=kafka compares, LEARN=1 writes the table; CHECK=1 saves nothing, runs a suite that differs once more, and passes where one can't be brought
	@$(BIN)/python -m tests.acceptance $(foreach suite,$(SUITE),--suite $(suite)) $(if $(BARNABAS_CORES),--cores $(BARNABAS_CORES)) \
		$(if $(AGAINST),--against $(AGAINST)) $(if $(LEARN),--learn) $(if $(CHECK),--no-save --skip-unavailable --attempts 2)

compiled: setup ## Compile the cores with mypyc and a C compiler, into build/compiled: services then run them; some minutes
	@BARNABAS_CORES=interpreted $(BIN)/python -m scripts.compiled

compiled-test: compiled etcd jars ## All tests with compiled cores but those that take minutes; traces equal those of interpreted ones: SIMULATED=1..8 CRASHED=1..40
	@echo "== tests with compiled cores"
	@BARNABAS_CORES=compiled $(PYTEST_BY_MODULE) -m "not minutes" tests/integration
	@BARNABAS_CORES=compiled $(PYTEST_BY_MODULE) -m "not deep" $(UNIT)
	@$(BIN)/python -m tests.compiled_traces --simulated $(or $(SIMULATED),1..8) --crashed $(or $(CRASHED),1..40)

contained: setup ## What an internal error may end, and all regressions, on compiled cores that throw exceptions where a test says
	@echo "== compiled cores that can throw"
	@BARNABAS_CORES=interpreted $(BIN)/python -m tests.sim.exceptions.throwing_build
	@THROWING_CORES=1 $(PYTEST) -n $(WORKERS) -m "not deep" tests/sim/test_exceptions.py tests/regressions

package: $(if $(COMPILED),compiled,setup) ## Build the sdists and wheels of both distributions, barnabas and barnabas-pipeline, into dist/; COMPILED=1: also a wheel with compiled cores
	@rm -rf dist
	@$(BIN)/python -m hatchling build --directory "$(CURDIR)/dist"
	@$(if $(COMPILED),BARNABAS_CORES=compiled $(BIN)/python -m hatchling build --target wheel --directory "$(CURDIR)/dist")
	@cd pipeline && ../$(BIN)/python -m hatchling build --directory "$(CURDIR)/dist"

package-test: setup etcd ## Build both distributions, install them into empty environments, run every role and a cluster from there
	@echo "== packages"
	@$(PYTEST) tests/packaging

authorization: setup etcd peer ## Authorize as Kafka's StandardAuthorizer and its broker do: AUTHORIZATION_CASES=200000, AUTHORIZATION_ROUNDS=100
	@$(BIN)/python -m tests.authorization --cases $(AUTHORIZATION_CASES) --save
	@$(BIN)/python -m tests.authorization.requests --rounds $(AUTHORIZATION_ROUNDS) --save

# What the figures in docs/verify/performance.md are of. BARNABAS_CORES=interpreted measures plain modules.
bench-cores: setup
	@[ "$$BARNABAS_CORES" = interpreted ] || BARNABAS_CORES=interpreted $(BIN)/python -m scripts.compiled || \
		echo "bench: interpreted cores are measured"

bench: setup etcd peer bench-cores ## Barnabas, Apache Kafka and kfake side by side, into docs/verify/performance.md: QUICK=1 in three minutes, STAGE="one broker"; first the cores are compiled
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(filter-out file,$(origin PAIRS)),--pairs $(PAIRS)) $(if $(STAGE),--stage "$(STAGE)")

bench-latency: setup etcd peer bench-cores ## Latency against offered load, Barnabas and Apache Kafka: a table and a plot, into docs/verify/performance.md
	@$(BIN)/python -m bench.offered_load $(if $(filter-out file,$(origin PAIRS)),--turns $(PAIRS))

bench-failover: setup etcd ## Measure failover: leaders killed, paused and stopped; 10,000 partitions
	@$(BIN)/python -m bench.failover

bench-metrics: setup etcd ## Measure the cost of request metrics in CPU per request; BASELINE=another checkout for comparison
	@$(BIN)/python -m bench.metrics $(if $(BASELINE),--baseline $(BASELINE))

bench-quotas: setup etcd ## Measure what clients get of a quota through two gateways with three processors each, into bench/results
	@$(BIN)/python -m bench.quotas

bench-compiled: compiled etcd ## Compare compiled with interpreted cores, in CPU and time per request, into docs/verify/performance.md
	@$(BIN)/python -m bench.compiled_cores --pairs $(PAIRS)

bench-groups: setup etcd peer bench-cores ## Compare rebalances, heartbeats and commits with Apache Kafka; LOGSTORES=3 for three of both
	@$(BIN)/python -m bench.groups --pairs $(PAIRS) $(if $(LOGSTORES),--logstores $(LOGSTORES))

bench-transactions: setup etcd peer bench-cores ## Compare transactions per second and the time until they are visible with Apache Kafka; LOGSTORES=3 for three of both
	@$(BIN)/python -m bench.transactions --pairs $(PAIRS) $(if $(LOGSTORES),--logstores $(LOGSTORES))

bench-omb: setup etcd peer bench-cores ## OpenMessaging Benchmark's 13 workloads beside Apache Kafka, RF 3, into docs/verify/omb.md: QUICK=1 one turn of 3 s each, SHAPE=name for one, WORKLOAD=file of its own, TURNS=3, PLACEMENT=together, IN_FLIGHT=5
	@$(BIN)/python -m bench.omb $(if $(QUICK),--quick) $(foreach shape,$(SHAPE),--shape $(shape)) $(if $(WORKLOAD),--workload "$(WORKLOAD)") \
		$(if $(TURNS),--turns $(TURNS)) $(if $(LOGSTORES),--logstores $(LOGSTORES)) $(if $(PLACEMENT),--placement $(PLACEMENT)) $(if $(IN_FLIGHT),--in-flight $(IN_FLIGHT))

pipeline: ## Set up Spark and the pipeline in .venv-pipeline (needs Java 17)
	@scripts/setup pipeline

pipeline-test: pipeline etcd ## Test the pipeline with a local Spark and real clusters; with Maven, also Spark's connector and a registry
	@echo "== pipeline tests"
	@if command -v mvn >/dev/null; then scripts/spark-kafka && scripts/registry; \
	else echo "no Maven here: tests of Spark's own connector and of a real schema registry are skipped"; fi
	@.venv-pipeline/bin/python -m pytest -q tests/unit/pipeline tests/pipeline

tables: pipeline ## Write a topic to a table, exactly once, until Ctrl-C: TOPIC=orders, INTO=iceberg, delta or parquet
	@test -n "$(TOPIC)" || { echo "which topic? make tables TOPIC=orders" >&2; exit 2; }
	@.venv-pipeline/bin/barnabas-pipeline tables --bootstrap-servers localhost:$(or $(PORT),9092) --topics "$(TOPIC)" \
		--into "$(or $(INTO),iceberg)" --to "$(DATA)/tables"

pipeline-million: pipeline etcd ## Write a million records to each table format, killing the driver and a gateway in between
	@.venv-pipeline/bin/python -m tests.pipeline.million $(if $(RECORDS),--records $(RECORDS))

bench-freshness: pipeline etcd ## Measure the age of rows when they appear in a table, at a steady 1,000 records/s
	@.venv-pipeline/bin/python -m bench.table_freshness

bench-pipeline: pipeline etcd ## Compare rows per second of format("barnabas") and of Spark's JVM connector
	@scripts/spark-kafka
	@.venv-pipeline/bin/python -m bench.pipeline --pairs $(PAIRS)

slow-hop: setup etcd ## One of three logstores made slow under load: the metrics alone name it, into docs/verify/slow-hop.md
	@$(BIN)/python -m bench.slow_hop

peer: ## Fetch Apache Kafka's jars (by Maven) for comparisons
	@scripts/peer

registry: ## Fetch a real schema registry (Apicurio, by Maven) for the pipeline's tests
	@scripts/registry

image: ## Build a container image per role: IMAGE=barnabas BASE=python:3.12-slim EXTRAS=traces
	@for role in gateway logstore purgatory controller; do \
		docker build --file deploy/k8s/Dockerfile --build-arg BASE=$(BASE) --build-arg ROLE=$$role --build-arg EXTRAS=$(EXTRAS) \
			--tag $(IMAGE)-$$role:$$(awk -F '"' '/^version/ { print $$2 }' pyproject.toml) . || exit 1; \
	done

image-test: setup ## Build the images and run them with etcd under testcontainers: kill -9, upgrade from the last release; BASE=, STEPS=kill, OFFLINE=1
	@$(BIN)/python -m tests.images --base $(BASE) $(if $(OFFLINE),--offline) $(if $(ETCD_IMAGE),--etcd-image $(ETCD_IMAGE)) \
		$(if $(STEPS),--steps $(STEPS))

pipeline-image: ## Build the image of the pipeline's Spark jobs: IMAGE=barnabas BASE=python:3.12-slim JAVA=eclipse-temurin:17-jdk
	@DOCKER_BUILDKIT=1 docker build --file deploy/pipeline/Dockerfile --build-arg BASE=$(BASE) --build-arg JAVA=$(JAVA) \
		--tag $(IMAGE)-pipeline:$$(awk -F '"' '/^version/ { print $$2 }' pyproject.toml) .

chart: setup ## Lint the Helm chart, render its variants, and validate them with Kubernetes' schemas
	@$(PYTEST) -n 2 tests/unit/deploy

manifests: setup ## Render the Helm chart to deploy/k8s/manifests
	@scripts/manifests

k8s-e2e: setup ## Install, load, upgrade, break and scale on a real Kubernetes node (K8S_NODE or KUBECONFIG): STEPS=roll for some
	@$(BIN)/python -m tests.k8s $(if $(STEPS),--steps $(STEPS))

pipeline-k8s: setup pipeline ## Run the pipeline on a real Kubernetes node, killing executors and drivers (K8S_NODE): STEPS=build,install,deployed for some
	@.venv-pipeline/bin/python -m tests.pipeline_k8s $(if $(STEPS),--steps $(STEPS))

ci: ## Run what continuous integration runs
	@.ci/run
