package journal

import (
	"crypto/sha256"
	"fmt"
	"time"
)

// RunID names a command and what it is to do. A run resumes an unfinished one of the same command
// and intent, and a finished one if the details are the same too.
type RunID struct {
	Command string `json:"command"`
	// digest of what cannot change once a run has begun: names, addresses, certificates
	Intent  string `json:"intent"`
	Details string `json:"details,omitempty"` // digest of everything else that shows in the outcome
}

// same reports whether an unfinished run is one to resume.
func (r RunID) same(other RunID) bool { return r.Command == other.Command && r.Intent == other.Intent }

// entry is one line of the run log.
type entry struct {
	Time   time.Time `json:"time"`
	Run    *RunID    `json:"run,omitempty"`    // a run begins
	Target string    `json:"target,omitempty"` // a change is about to happen
	// of a file: digest of the bytes that are about to be written
	Sum  string `json:"sum,omitempty"`
	What string `json:"what,omitempty"`
	// a target is about to be undone and no longer counts as created
	Undone string   `json:"undone,omitempty"`
	End    bool     `json:"end,omitempty"`  // the run finished
	Skip   []string `json:"skip,omitempty"` // phases that the finished run skipped
}

// runLog is what the journal records of this run and of earlier ones.
type runLog struct {
	store Store
	run   RunID
	now   func() time.Time

	// the next line must begin the run: nothing, or not all, was written yet
	fresh bool
	// targets of runs like this one; of a file the digests of what it was written to hold, one
	// after the other
	made       map[string][]string
	named      map[string]bool // targets of all runs: what was being written when one was killed
	earlier    Earlier
	unended    bool // the last run of the same name did not finish
	superseded bool // the last run of the same name that finished had other details
}

// Earlier is what a journal says about earlier runs.
type Earlier struct {
	First bool // there was no run of any command
	// the same run with the same details finished, and nothing was changed since
	Finished   bool
	Skipped    []string // phases that the finished run was told to skip
	Unfinished string   // command of another run that has not finished
}

func openLog(store Store, run RunID, now func() time.Time) (runLog, error) {
	l := runLog{store: store, run: run, now: now, fresh: true, made: map[string][]string{},
		named: map[string]bool{}}
	lines, err := load[entry](store, entries)
	if err != nil {
		return l, err
	}
	l.earlier.First = len(lines) == 0
	var current RunID
	for _, e := range lines {
		l.named[e.Target] = true
		if e.Run != nil {
			current = *e.Run
			l.earlier.Unfinished = ""
		}
		if current.same(run) {
			l.unended = !e.End
		}
		switch {
		case !current.same(run) && e.End:
			l.earlier.Unfinished = ""
		case !current.same(run):
			l.earlier.Unfinished = current.Command
		case e.End && current.Details != run.Details:
			l.superseded, l.earlier.Finished = true, false
			clear(l.made)
		case e.End:
			l.superseded, l.earlier.Finished, l.earlier.Skipped = false, true, e.Skip
		case e.Target != "":
			digests := l.made[e.Target]
			if e.Sum != "" {
				digests = append(digests, e.Sum)
			}
			l.made[e.Target], l.earlier.Finished = digests, false
		case e.Undone != "":
			delete(l.made, e.Undone)
		}
	}
	return l, nil
}

// append writes a line, after one that begins the run if there is none yet.
func (l *runLog) append(e entry) error {
	e.Time = l.now().UTC()
	var text []byte
	if l.fresh {
		// a kill may have cut the line before
		text = append([]byte{'\n'}, encodeLine(entry{Time: e.Time, Run: &l.run})...)
	}
	err := l.store.Append(entries, append(text, encodeLine(e)...))
	l.fresh = err != nil // a full disk may have cut this line, too
	return err
}

func sha256Hex(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// LastFinished reports whether the last run of the command finished, whatever its settings, and
// which targets it or an earlier run of the same command recorded.
func LastFinished(store Store,
	command string) (recorded func(target string) bool, ok bool, err error) {
	lines, err := load[entry](store, entries)
	targets, current := map[string]bool{}, ""
	for _, e := range lines {
		if e.Run != nil {
			current = e.Run.Command
		}
		if current != command {
			continue
		}
		ok = e.End
		switch {
		case e.Target != "":
			targets[e.Target] = true
		case e.Undone != "":
			delete(targets, e.Undone)
		}
	}
	return func(target string) bool { return targets[target] }, ok, err
}
