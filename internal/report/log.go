package report

import (
	"flag"
	"fmt"
	"io"
	"log"
	"strconv"
	"strings"

	"k8s.io/klog/v2"
)

// Libraries log more than warnings from libraryLevel on. Above lastLibraryLevel client-go logs
// whole requests and responses, including secrets.
const (
	libraryLevel     = 4
	lastLibraryLevel = 7
)

// Log sets the log verbosity of libraries, which log to w: a level, and "pattern=N,..." for single
// source files. Without either they log nothing, not even errors: what matters is in the errors of
// this program. The returned writers are for the warnings and errors of libraries that use another logger
// than klog and package log: of gRPC, which warns of every connection that fails, several times a second
// while a server is down. Its warnings are written from libraryLevel on.
func Log(w io.Writer, level int, files string) (warnings, errs io.Writer, err error) {
	if level == 0 && files == "" {
		w = io.Discard
	}
	w, warnings = redactingWriter{w}, io.Discard
	if level >= libraryLevel {
		warnings = w
	}
	log.SetOutput(w)
	var set flag.FlagSet
	klog.InitFlags(&set)
	klog.SetOutput(w)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL",
		"one_output": "true"} {
		if err := set.Set(name, value); err != nil {
			return warnings, w, err
		}
	}
	if level < libraryLevel {
		level = 0 // below it the level is about the output of this program
	}
	if err := set.Set("v", strconv.Itoa(min(level, lastLibraryLevel))); err != nil {
		return warnings, w, fmt.Errorf("flag -v: %w", err)
	}
	settings := strings.Split(files, ",")
	for i, one := range settings { // another form than "pattern=N" is left for klog to refuse
		pattern, number, _ := strings.Cut(one, "=")
		if n, err := strconv.Atoi(number); err == nil && n > lastLibraryLevel {
			settings[i] = pattern + "=" + strconv.Itoa(lastLibraryLevel)
		}
	}
	if err := set.Set("vmodule", strings.Join(settings, ",")); err != nil {
		return warnings, w, fmt.Errorf("flag --vmodule: %w", err)
	}
	return warnings, w, nil
}

// redactingWriter hides secrets and control characters. Each write is a message.
type redactingWriter struct{ to io.Writer }

func (s redactingWriter) Write(text []byte) (int, error) {
	if _, err := io.WriteString(s.to, Redact(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}
