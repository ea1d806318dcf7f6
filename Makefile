# Everything a contributor runs. "make help" lists it. Needs Go; what runs nodes also needs root and Debian, and installs
# what is missing. Built components, node images and the like are cached outside of the tree: see components/README.md.

VERSION ?= v1.37.1
NODE ?= cp1
CONTROL_PLANES ?= 1
WORKERS ?= 1
NODES ?= 10,500,5000
COMPONENTS ?= compile

# A clone may belong to another user than the one who builds it; the version is stamped below instead. With -trimpath what
# was compiled, vetted and checked in one clone is found in the caches from another one: two CPU minutes of a warm "make test".
export GOFLAGS += -buildvcs=false -trimpath

git = $(shell TZ=UTC git -c safe.directory='*' $(1) 2>/dev/null)
ldflags = -s -w -X main.gitVersion=$(VERSION) \
	-X main.gitCommit=$(call git,rev-parse HEAD) \
	-X main.gitTreeState=$(if $(call git,status --porcelain --untracked-files=no),dirty,clean) \
	-X main.buildDate=$(call git,log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
# grpcnotrace leaves out gRPC's pages of traces, which nothing serves here: 0.3 MB.
go-build = CGO_ENABLED=0 go build -trimpath -tags grpcnotrace -ldflags "$(ldflags)"

# In a recipe, $(bundle) puts the directory of the components into the shell's variable "bundle", building what is missing;
# $(older) does so with those of the release before, for tests of older nodes. "make cluster" can download them instead.
bundle = bundle=$$(go -C components run ./build $(build-flags))
older = older=$$(go -C components run ./build -kubernetes v1.36)
oldest = oldest=$$(go -C components run ./build -kubernetes v1.34) && oldest=$$oldest:$$(go -C components run ./build -kubernetes v1.35)
nodes = go run ./test/nodes/cluster
tool = $$(go -C $(CURDIR)/tools tool -n $(1))
# Beside other clusters on a busy machine, a wait of Kubernetes itself may run out: when few tests fail, each is run once
# more, alone, and named as such at the end. What fails twice fails.
# With SCENARIO=85, RUN matches the tests that test/e2e/SCENARIOS.md names for that scenario.
scenario_tests = $(shell grep '^| $(SCENARIO) |' test/e2e/SCENARIOS.md | grep -o 'Test[A-Za-z0-9]*' | paste -sd '|')
RUN ?= $(if $(SCENARIO),^($(or $(scenario_tests),$(error no test covers scenario $(SCENARIO))))$$)
e2e = KUBEADM_BUNDLE="$$bundle" KUBEADM_BUNDLE_OLDER="$$older" KUBEADM=$(CURDIR)/bin/kubeadm \
	$(call tool,gotestsum) --format standard-verbose --hide-summary skipped \
	$(if $(KEEP),,--rerun-fails=1 --rerun-fails-max-failures=6 --rerun-fails-run-root-test) --packages ./test/e2e -- -tags e2e -count=1 -parallel 3

# A release: its directory, architectures and the revision of its packages.
RELEASE ?= $(CURDIR)/bin/release
ARCHITECTURES ?= amd64 arm64 ppc64le riscv64 s390x
WINDOWS_ARCHITECTURES ?= amd64 arm64
REVISION ?= 1

.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help build cluster cluster-down shell check test test-beside-laws parity e2e e2e-full conformance bench bench-scale lint vulncheck unit laws scripts broken deps shells windows golden reference man release packages release-check

help: ## list all of this
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/kubeadm
	$(go-build) -o bin/kubeadm ./cmd/kubeadm

cluster: build-flags = $(if $(filter download,$(COMPONENTS)),-download,$(if $(filter-out compile,$(COMPONENTS)),$(error COMPONENTS must be compile or download)))
cluster: build ## create a Kubernetes cluster on this machine: make cluster CONTROL_PLANES=3 WORKERS=2; COMPONENTS=download spares compiling
	@$(bundle) && $(nodes) up --bundle "$$bundle" --kubeadm bin/kubeadm --control-planes $(CONTROL_PLANES) --workers $(WORKERS)

cluster-down: ## remove that cluster and everything of it
	@$(nodes) down

shell: ## open a shell on a node of that cluster: make shell NODE=worker1
	@$(nodes) shell $(NODE)

check: lint unit laws scripts broken ## what to run before a commit; no root, no nodes. The first run takes minutes, as it compiles everything; later ones repeat the linters, and the tests of what has changed

# The laws need nothing but CPU time: their machines and clocks are simulated. They take what the rest leaves idle while it
# waits for real nodes. The kernel's autogroup has a priority of its own, which counts between sessions.
idle = setsid sh -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$$@"' idle

test: build ## everything that must hold, on real nodes too
	@$(bundle) && $(older) && { $(idle) $(MAKE) --no-print-directory laws >bin/laws.log 2>&1 & } && laws=$$! && \
		trap 'kill -- -$$laws 2>/dev/null' EXIT && trap 'exit 1' INT TERM && $(MAKE) --no-print-directory -o build test-beside-laws && \
		echo "the laws, which began first:" && { wait $$laws; code=$$?; cat bin/laws.log; exit $$code; }

# "make lint" vets more than "go test" would.
test-beside-laws: lint deps shells
	@$(bundle) && $(older) && echo "go test ./... but test/laws" && KUBEADM_BUNDLE="$$bundle" KUBEADM_BUNDLE_OLDER="$$older" KUBEADM_PEER="$$bundle/bin/kubeadm-upstream" \
		go test -vet=off -timeout 1h $$(go list ./... | grep -v '/test/laws$$')
	go -C components test -timeout 1h ./...
	go -C tools test ./...
	@$(MAKE) --no-print-directory -o build parity
	@$(MAKE) --no-print-directory -o build e2e

parity: build ## compare what kubeadm and upstream's make of the same input: make parity RUN=config; needs root
	@$(bundle) && KUBEADM_PEER="$$bundle/bin/kubeadm-upstream" KUBEADM=$(CURDIR)/bin/kubeadm \
		CGO_ENABLED=0 go test -count=1 -timeout 1h -parallel 16 $(if $(RUN),-run 'Test(Parity|Phrases)/case/.*($(RUN))') ./test/parity

e2e: build ## end-to-end tests on real nodes: make e2e RUN=TestDualStack, or SCENARIO=85; KEEP=failure leaves a failed test's nodes
	@$(bundle) && $(older) && $(e2e) -timeout 2h -run '$(RUN)'

e2e-full: build ## the same with the long matrices: a kill at every change, reboots
	@$(bundle) && $(older) && $(oldest) && KUBEADM_BUNDLES_OLDEST="$$oldest" KUBEADM_E2E=full $(e2e) -timeout 12h -run '$(RUN)'

# "kubeadm" or "upstream": the program that creates the cluster. The parts are "parallel", "serial" and "quick".
PROGRAM ?= kubeadm
PARTS ?= parallel serial

conformance: build ## run Kubernetes' conformance suite, which takes an hour: make conformance PARTS=quick, or PROGRAM=upstream; log: bin/conformance.log
	@$(bundle) && $(older) && go -C components run ./build-extra conformance >/dev/null && rm -f bin/conformance.log && \
		CONFORMANCE_LOG=$(CURDIR)/bin/conformance.log CONFORMANCE_OF=$(PROGRAM) CONFORMANCE_PARTS="$(PARTS)" \
		KUBEADM_BUNDLE="$$bundle" KUBEADM_BUNDLE_OLDER="$$older" KUBEADM=$(CURDIR)/bin/kubeadm \
		go test -tags e2e -count=1 -timeout 4h -v -run '^TestConformance$$' ./test/e2e

bench: build ## time kubeadm and upstream's in turn on the same node, and draw bin/bench.svg: make bench ROUNDS=6 ONLY=init,join-planes
	@$(bundle) && $(older) && etcd=$$(go -C components run ./build-extra etcd) && go run ./test/bench --bundle "$$bundle" --older "$$older" \
		--etcd-tools "$$etcd" --kubeadm bin/kubeadm --json bin/bench.json \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(ONLY),--only $(ONLY))
	@go -C tools run ./benchplot --json $(CURDIR)/bin/bench.json --svg $(CURDIR)/bin/bench.svg

bench-scale: build ## measure what commands cost in clusters of 10, 500 and 5,000 nodes; writes bin/scale.svg and scale.md: make bench-scale NODES=10,500 BEFORE=FILE; needs root
	@$(bundle) && $(older) && rm -f bin/scale.json && KUBEADM_BUNDLE="$$bundle" KUBEADM_BUNDLE_OLDER="$$older" KUBEADM=$(CURDIR)/bin/kubeadm \
		KUBEADM_SCALE=$(NODES) KUBEADM_SCALE_BEFORE=$(BEFORE) KUBEADM_SCALE_COMMAND="$(COMMAND)" \
		KUBEADM_SCALE_JSON=$(CURDIR)/bin/scale.json go test -tags e2e -count=1 -v -timeout 2h -run TestScale ./test/scale
	@go -C tools run ./scaleplot --json $(CURDIR)/bin/scale.json --svg $(CURDIR)/bin/scale.svg --markdown >bin/scale.md

lint: ## gofmt, go vet and the linters of tools/go.mod
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w these:" $$unformatted; exit 1; }
	go vet -tags e2e ./...
	go -C components vet ./...
	go -C tools vet ./...
	@echo "staticcheck -checks all ./..." && $(call tool,staticcheck) -checks all -tags e2e ./...
	@cd components && $(call tool,staticcheck) -checks all ./...
	@cd tools && $(call tool,staticcheck) -checks all ./...
	@echo "go-errorlint ./..." && go vet -vettool=$(call tool,go-errorlint) -tags e2e ./...
	@cd components && go vet -vettool=$(call tool,go-errorlint) ./...
	@echo "errcheck ./cmd/... ./internal/..." && $(call tool,errcheck) -ignoretests -exclude tools/errcheck.txt ./cmd/... ./internal/...
	@echo "unparam ./cmd/... ./internal/..." && $(call tool,unparam) -tests=false ./cmd/... ./internal/...
	@cd components && $(call tool,unparam) -tests=false ./...
	@echo "misspell ." && $(call tool,misspell) -error -i nmae .

vulncheck: ## known vulnerabilities in what kubeadm calls; needs a network (the Go vulnerability database), so it is not in make test
	$(call tool,govulncheck) ./cmd/kubeadm

unit: ## tests of single packages, and of the form of the guides
	go test ./internal/... ./cmd/... ./test/guides

laws: ## what holds for every workflow at every point
	go test -timeout 1h ./test/laws

scripts: ## the command line, from arguments to exit code
	go test ./test/scripts

broken: ## broken input of every kind, and the error that each must get: make broken RUN=pki
	go test $(if $(RUN),-v -run '.*/$(RUN)') ./test/broken

# Each package that a worker runs, under Wine. Left out: etcd with its restores, what only reads this repository, tests with a Unix shell, socket
# or trust store, those that compare with upstream's program for Linux, and files of a release. Wine cannot remove their t.TempDir.
PACKAGES ?= $(shell GOOS=windows go list ./cmd/... ./internal/... ./test/broken | grep -vE '^kubeadm/internal(/world/etcd|/world/linux)?$$')
not_on_windows = ^Test(Edit|FileInPlaceOfADirectoryIsNamed|ManPages|CompletionScripts|DoctorCommandsKeepConfiguration|ShellCompletion|RuntimeDoesNotAnswer|DiscoveryFileExecCredentials|ReadPatchesSkipsOtherFiles|ReadPatchFromFIFO|MachineTrustStore|(CheckExpiration|RenewedCertificates|CSRs|UserKubeconfigs|Verdicts|MigratedFiles)Match(es)?Upstream|Peer.*|DryRunOfThisMachine)$$|^TestBrokenInput$$/^etcd/^restore_

windows: ## vet the program for Windows and run its tests under Wine, which is installed if it is missing: make windows PACKAGES=./internal/world/windows
	GOOS=windows go vet ./cmd/... ./internal/... ./test/broken ./test/laws ./test/scripts
	GOOS=windows go test -count=1 -timeout 30m -exec $(CURDIR)/test/windows/wine -skip '$(not_on_windows)' $(PACKAGES)

deps: build ## compare the modules linked into kubeadm with tools/linked.txt, and see that unused methods are not
	@mkdir -p bin && go list -deps -f '{{with .Module}}{{.Path}}{{end}}' ./cmd/kubeadm | LC_ALL=C sort -u | grep -v '^kubeadm$$' >bin/linked
	@grep -v '^#' tools/linked.txt | diff bin/linked - || { \
		echo "tools/linked.txt must list what is linked into kubeadm: < is linked in, > is listed"; exit 1; }
	@grep -aqF reflect.Value.Methods bin/kubeadm; test $$? = 1 || { \
		echo "all methods are linked in, as with text/template: <ReflectMethod> in the output of -ldflags=-dumpdep names the cause"; exit 1; }

shells: ## install the shells whose completion is tested, where they are missing
	@missing=; for s in fish zsh; do command -v $$s >/dev/null || missing="$$missing $$s"; done; test -z "$$missing" || { \
		echo "installing by apt:$$missing"; export DEBIAN_FRONTEND=noninteractive; \
		apt-get -qq install -y --no-install-recommends $$missing >/dev/null || { \
			apt-get -qq update && apt-get -qq install -y --no-install-recommends $$missing >/dev/null; }; }

reference: ## write docs/reference from the command tree and the configuration types
	go run ./cmd/gen-docs --reference docs/reference

man: ## write man pages to bin/man
	rm -rf bin/man && go run ./cmd/gen-docs --man bin/man --version $(VERSION) --date $(call git,log -1 --format=%cs)

release: ## programs, packages, SBOMs and checksums in bin/release: make release ARCHITECTURES=amd64 WINDOWS_ARCHITECTURES=
	@mkdir -p "$(RELEASE)" && rm -f "$(RELEASE)"/kubeadm[-_]* "$(RELEASE)/SHA256SUMS"
	@for arch in $(ARCHITECTURES); do echo "kubeadm-linux-$$arch" && GOOS=linux GOARCH=$$arch $(go-build) \
		-o "$(RELEASE)/kubeadm-linux-$$arch" ./cmd/kubeadm || exit 1; done
	@for arch in $(WINDOWS_ARCHITECTURES); do echo "kubeadm-windows-$$arch.exe" && GOOS=windows GOARCH=$$arch $(go-build) \
		-o "$(RELEASE)/kubeadm-windows-$$arch.exe" ./cmd/kubeadm || exit 1; done
	@$(MAKE) --no-print-directory packages

# What a release has besides the programs, made of those that are in its directory.
packages: man
	@rm -rf bin/completion && go run ./cmd/gen-docs --completion bin/completion
	@go -C tools run ./release --dir "$(RELEASE)" --man $(CURDIR)/bin/man --completion $(CURDIR)/bin/completion \
		--version $(VERSION) --revision $(REVISION) --date $(call git,log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)
	@ls -l "$(RELEASE)"

release-check: release ## make the release again, in another directory and with an empty build cache: every byte must be the same
	@test -z "$(call git,status --porcelain --untracked-files=no)" || { \
		echo "commit first: the second build is that of HEAD"; exit 1; }
	@again=$$(mktemp -d) && trap 'chmod -R u+w "$$again" && rm -rf "$$again"' EXIT && \
		git -c safe.directory='*' clone --quiet --shared "$(CURDIR)" "$$again/kubeadm" && \
		GOCACHE="$$again/cache" $(MAKE) --no-print-directory -C "$$again/kubeadm" release RELEASE="$$again/release" && \
		diff "$(RELEASE)/SHA256SUMS" "$$again/release/SHA256SUMS" && \
		echo "both releases are the same: $$(wc -l <"$(RELEASE)/SHA256SUMS") files"

golden: ## re-create the golden files from upstream's kubeadm
	@$(bundle) && go test -c -o bin/manifest.test ./internal/manifest && cd internal/manifest && \
		unshare --net --uts sh -c 'hostname capture && exec ../../bin/manifest.test -test.run TestCapture -peer "$$0"' \
		"$$bundle/bin/kubeadm-upstream"
