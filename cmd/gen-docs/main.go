// Command gen-docs writes the reference in docs/reference and the man pages: of every command from
// the command tree, and of every configuration kind from its types, defaults and checks.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"kubeadm/internal/cli"
)

func main() {
	repository := flag.String("repository", ".", "root of the repository")
	reference := flag.String("reference", "",
		"directory to write the reference to; its old pages are removed")
	man := flag.String("man", "", "directory to write man pages to")
	completion := flag.String("completion", "",
		"directory to write completion scripts to, each named after its shell")
	date := flag.String("date", "", "date of the man pages, as YYYY-MM-DD; today if not set")
	version := flag.String("version", "", "version of kubeadm, for the man pages")
	flag.Parse()
	var err error
	switch {
	case flag.NArg() > 0 || *reference == "" && *man == "" && *completion == "":
		err = errors.New("set --reference, --man or --completion; gen-docs takes no arguments")
	case *reference != "":
		err = writeReference(*repository, *reference)
	}
	if err == nil && *man != "" {
		err = writeManPages(*man, *date, *version)
	}
	if err == nil && *completion != "" {
		err = writeCompletionScripts(*completion)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// commandTree is "kubeadm" with all its subcommands, on a machine without environment.
func commandTree(out io.Writer) *cobra.Command {
	return cli.New(cli.Host{Out: out, Err: io.Discard,
		Getenv: func(string) (string, bool) { return "", false },
		Log:    func(int, string) error { return nil }})
}

// referencePages returns the pages of the reference by their path in docs/reference.
func referencePages(repository string) (map[string]string, error) {
	differences, err := readUpstreamDifferences(filepath.Join(repository, "test/parity/accepted.yaml"))
	if err != nil {
		return nil, err
	}
	pages, err := configurationPages(repository)
	if err != nil {
		return nil, err
	}
	root := commandTree(io.Discard)
	addCommandPages(pages, root, differences)
	pages["README.md"] = overviewPage(root)
	return pages, nil
}

// writeReference replaces the pages in the directory.
func writeReference(repository, dir string) error {
	pages, err := referencePages(repository)
	if err != nil {
		return err
	}
	for _, sub := range []string{commandsDir, configurationDir} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}
	for name, text := range pages {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeManPages writes a page of section 8 for every command.
func writeManPages(dir, date, version string) error {
	day := time.Now()
	if date != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, date); err != nil {
			return fmt.Errorf("--date: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root := commandTree(io.Discard)
	root.DisableAutoGenTag = true // each page has the date in its header
	return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Date: &day,
		Source: "kubeadm " + version, Manual: "Kubernetes administration"}, dir)
}

// writeCompletionScripts writes what "kubeadm completion" prints for the shells of Linux.
func writeCompletionScripts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		var script bytes.Buffer
		root := commandTree(&script)
		root.SetArgs([]string{"completion", shell})
		if err := root.Execute(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, shell), script.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
