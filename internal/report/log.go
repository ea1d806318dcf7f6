package report

import (
	"flag"
	"fmt"
	"io"
	"log"
	"strconv"
	"strings"

	"k8s.io/klog/v2"

	"kubeadm/internal/untrusted"
)

// Libraries tell more than warnings from the first verbosity on, and never more than at the last: above
// it the client of the API server writes out whole requests and answers, the secrets of tokens among them.
const (
	libraryLevel     = 4
	lastLibraryLevel = 7
)

// Log sets how much libraries log to w: a level, and "pattern=N,..." for single source files. Without either they log
// nothing at all, not even errors: what matters to the user is in the errors of this program.
// The writer that it returns is for libraries that use another log than klog or Go's own.
func Log(w io.Writer, level int, files string) (io.Writer, error) {
	if level == 0 && files == "" {
		w = io.Discard
	}
	w = screened{w}
	log.SetOutput(w)
	return w, setKlog(w, level, files)
}

func setKlog(w io.Writer, level int, files string) error {
	var set flag.FlagSet
	klog.InitFlags(&set)
	klog.SetOutput(w)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL", "one_output": "true"} {
		if err := set.Set(name, value); err != nil {
			return err
		}
	}
	if level < libraryLevel {
		level = 0 // so far the level is about what we tell ourselves
	}
	if err := set.Set("v", strconv.Itoa(min(level, lastLibraryLevel))); err != nil {
		return fmt.Errorf("flag -v: %w", err)
	}
	if err := set.Set("vmodule", capLevels(files)); err != nil {
		return fmt.Errorf("flag --vmodule: %w", err)
	}
	return nil
}

// screened hides secrets and control characters in what is written to it, a message each time.
type screened struct{ to io.Writer }

func (s screened) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.to, untrusted.Screen(redactSecrets(string(text)))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// capLevels is "pattern=N,..." without levels above the last. What has another form is left for klog to refuse.
func capLevels(files string) string {
	settings := strings.Split(files, ",")
	for i, one := range settings {
		pattern, level, _ := strings.Cut(one, "=")
		if n, err := strconv.Atoi(level); err == nil && n > lastLibraryLevel {
			settings[i] = pattern + "=" + strconv.Itoa(lastLibraryLevel)
		}
	}
	return strings.Join(settings, ",")
}
