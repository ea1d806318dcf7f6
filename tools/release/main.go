// Command release makes packages, bills of materials and checksums from built programs. The
// same programs give the same bytes: every time in them is that of the commit.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// release is what all files of a release share.
type release struct {
	repository string    // for the license and the units of systemd
	dir        string    // has the programs, and gets everything else
	man        string    // directory of man pages
	completion string    // directory of completion scripts, each named after its shell
	version    string    // such as v1.37.1
	revision   string    // of the packages of this version, from 1
	date       time.Time // of the commit
}

func main() {
	r, err := parseFlags(os.Args[1:])
	if err == nil {
		err = r.make()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (r release, err error) {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	flags.StringVar(&r.repository, "repository", "..", "root of the repository")
	flags.StringVar(&r.dir, "dir", "",
		"directory with "+programPrefix+"ARCH for each architecture; also for the results")
	flags.StringVar(&r.man, "man", "", "directory of the man pages")
	flags.StringVar(&r.completion, "completion", "",
		"directory of the completion scripts bash, fish and zsh")
	flags.StringVar(&r.version, "version", "", "version of kubeadm")
	flags.StringVar(&r.revision, "revision", "1", "revision of the packages of this version")
	date := flags.String("date", "", "time of the commit, in RFC 3339")
	if err := flags.Parse(args); err != nil {
		return r, err
	}
	if flags.NArg() > 0 || r.dir == "" || r.man == "" || r.completion == "" || r.version == "" {
		return r, errors.New("release needs --dir, --man, --completion, --version and --date, " +
			"and no arguments; make release sets them")
	}
	if r.date, err = time.Parse(time.RFC3339, *date); err != nil {
		return r, fmt.Errorf("--date: %w", err)
	}
	return r, nil
}

// programPrefix begins the name of a program, which ends with its architecture in Go's terms.
const programPrefix = "kubeadm-linux-"

// windowsPrograms matches the programs for Windows.
const windowsPrograms = "kubeadm-windows-*.exe"

// make writes everything that is made from the programs in the directory.
func (r release) make() error {
	programs, err := filepath.Glob(filepath.Join(r.dir, programPrefix+"*"))
	if err != nil {
		return err
	}
	programs = slices.DeleteFunc(programs, func(name string) bool {
		return filepath.Ext(name) != "" // of an earlier run
	})
	if len(programs) == 0 {
		return fmt.Errorf("there is no %sARCH in %s", programPrefix, r.dir)
	}
	files, err := os.MkdirTemp("", "kubeadm-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	contents, err := r.packageContents(files)
	if err != nil {
		return err
	}
	for _, program := range programs {
		if err := r.writeBillOfMaterials(program); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", program, err)
		}
		for _, format := range []string{formatDeb, formatRPM} {
			if err := r.writePackage(format, program, files, contents); err != nil {
				return fmt.Errorf("%s package of %s: %w", format, program, err)
			}
		}
	}
	forWindows, err := filepath.Glob(filepath.Join(r.dir, windowsPrograms))
	if err != nil {
		return err
	}
	for _, program := range forWindows { // there are no packages of it
		if err := r.writeBillOfMaterials(program); err != nil {
			return fmt.Errorf("bill of materials of %s: %w", program, err)
		}
	}
	return writeChecksums(r.dir)
}

// checksumsFile is in the format of sha256sum(1).
const checksumsFile = "SHA256SUMS"

// writeChecksums writes the checksums of all files in the directory.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		if e.Name() == checksumsFile || !e.Type().IsRegular() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(data), e.Name())
	}
	return os.WriteFile(filepath.Join(dir, checksumsFile), []byte(b.String()), 0o644)
}
