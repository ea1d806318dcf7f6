package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"kubeadm/internal/engine"
)

// runLogLimit is the size of a log file, in bytes, from which on events are left out.
const runLogLimit = 1 << 20

// LogFile is a file of a log.
type LogFile interface {
	io.WriteCloser
	Name() string // its path
}

// RunLog writes what a run reports to a log file: the text with every change, the time before each
// line, and no secrets. It writes at once, so that the log of a killed run is complete. The file is
// created before the first change, or at the end of a run that failed after a phase had begun; a run
// that changes nothing, or a dry run, leaves none.
type RunLog struct {
	// Create creates the file.
	Create func() (LogFile, error)
	// Failed is told, once, that the file cannot be created or written. The run continues without.
	Failed func(error)

	mu       sync.Mutex
	enabled  bool
	begun    bool         // a phase has
	earlier  bytes.Buffer // the log before the file is created
	file     LogFile
	written  int
	finished bool
}

// Enable makes the run keep a log. Commands that change nothing on this machine do not enable it.
func (l *RunLog) Enable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.enabled = true
}

// Emit writes one event.
func (l *RunLog) Emit(e engine.Event) {
	l.mu.Lock()
	failed := l.add(e)
	l.mu.Unlock()
	if failed != nil {
		l.Failed(failed)
	}
}

func (l *RunLog) add(e engine.Event) (err error) {
	if l.finished || e.Preview {
		return nil
	}
	var text bytes.Buffer
	(&Text{Out: &text, Err: &text, Verbosity: 1}).show(e)
	l.begun = l.begun || e.Kind == engine.Started
	if changes := e.Kind == engine.Changing || e.Kind == engine.ChangeFailed; changes && l.file == nil && l.enabled {
		if err := l.create(); err != nil {
			return err
		}
	}
	return l.write(withTime(e.Time, text.String()))
}

// create creates the file and writes what happened until now.
func (l *RunLog) create() (err error) {
	if l.file, err = l.Create(); err != nil {
		l.file, l.finished = nil, true
		return err
	}
	_, err = l.file.Write(l.earlier.Bytes())
	l.finished = err != nil
	return err
}

// End writes how the run ended, and closes the file. It returns the path of the file, or an empty
// one if there is none.
func (l *RunLog) End(now func() time.Time, err error) (path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil && l.enabled && l.begun && err != nil && !l.finished {
		_ = l.create() // the error of the run matters more
	}
	if l.file == nil || l.finished {
		return ""
	}
	text := bytes.NewBufferString("finished\n")
	if err != nil {
		text.Reset()
		Error(text, nil, err)
	}
	l.finished = true
	_, failed := l.file.Write(withTime(now(), text.String()))
	if closed := l.file.Close(); failed != nil || closed != nil {
		return ""
	}
	return l.file.Name()
}

// write writes to the file, or keeps the text until there is one.
func (l *RunLog) write(text []byte) error {
	if l.written > runLogLimit {
		return nil
	}
	if l.written += len(text); l.written > runLogLimit {
		text = fmt.Appendf(nil, "the rest is left out: this log would exceed %d bytes\n",
			runLogLimit)
	}
	if l.file == nil {
		l.earlier.Write(text)
		return nil
	}
	_, err := l.file.Write(text)
	l.finished = l.finished || err != nil
	return err
}

// withTime puts the time before each line, and hides secrets.
func withTime(at time.Time, text string) []byte {
	var all bytes.Buffer
	for line := range strings.Lines(Redact(text)) {
		if line = strings.TrimRight(line, "\n"); line != "" {
			fmt.Fprintf(&all, "%s %s\n", at.UTC().Format("2006-01-02T15:04:05.000Z"), line)
		}
	}
	return all.Bytes()
}
