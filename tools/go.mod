// Programs that check the source and run its tests, pinned apart from the product's dependencies.
module kubeadm/tools

go 1.26.0

tool (
	github.com/golangci/misspell/cmd/misspell // common misspellings in code, tests and documents
	github.com/kisielk/errcheck // errors that a call returns and nothing reads; see errcheck.txt
	github.com/polyfloyd/go-errorlint // errors compared by == or a type assertion, or formatted without %w
	golang.org/x/vuln/cmd/govulncheck // known vulnerabilities in functions that kubeadm calls ("make vulncheck")
	gotest.tools/gotestsum // repeats the output of failed tests at the end of a long run
	honnef.co/go/tools/cmd/staticcheck // mistakes, deprecated calls, style and missing package comments
	mvdan.cc/unparam // parameters and results that are unused or always the same
)

require (
	github.com/BurntSushi/toml v1.4.1-0.20240526193622-a339e1f7089c // indirect
	github.com/bitfield/gotestdox v0.2.2 // indirect
	github.com/dnephin/pflag v1.0.7 // indirect
	github.com/fatih/color v1.18.0 // indirect
	github.com/fsnotify/fsnotify v1.9.0 // indirect
	github.com/golangci/misspell v0.8.0 // indirect
	github.com/google/shlex v0.0.0-20191202100458-e7afc7fbc510 // indirect
	github.com/kisielk/errcheck v1.30.0 // indirect
	github.com/mattn/go-colorable v0.1.13 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	github.com/polyfloyd/go-errorlint v1.8.0 // indirect
	golang.org/x/exp/typeparams v0.0.0-20231108232855-2478ac86f678 // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.23.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/telemetry v0.0.0-20260924152758-ed294f943157 // indirect
	golang.org/x/term v0.35.0 // indirect
	golang.org/x/text v0.17.0 // indirect
	golang.org/x/tools v0.51.0 // indirect
	golang.org/x/vuln v1.8.0 // indirect
	gotest.tools/gotestsum v1.13.0 // indirect
	honnef.co/go/tools v0.8.2 // indirect
	mvdan.cc/unparam v0.0.0-20260823230713-2fa3d841b0c8 // indirect
)
