package journal

import "slices"

// compactEntries leaves out what later lines repeat: where a run finished, an earlier run that was
// just the same need not record the targets that the later one recorded. Reading what is left has
// the same results, except that a file is ours only with what that last run wrote.
func compactEntries(lines []entry) []entry {
	runs := splitRuns(lines)
	// targets of finished runs later than the one being looked at
	ended := map[Run]map[string]bool{}
	var kept [][]entry
	for _, run := range slices.Backward(runs) {
		repeated, again := ended[*run[0].Run]
		own := slices.DeleteFunc(slices.Clone(run),
			func(e entry) bool { return repeated[e.Target] })
		if !again || slices.ContainsFunc(own,
			func(e entry) bool { return e.Target != "" || e.Undone != "" }) {
			kept = append(kept, own)
		}
		if run[len(run)-1].End {
			ended[*run[0].Run] = addTargets(repeated, run)
		}
	}
	slices.Reverse(kept)
	return slices.Concat(kept...)
}

// splitRuns returns the lines of each run. Lines before the first run belong to none.
func splitRuns(lines []entry) (runs [][]entry) {
	for _, e := range lines {
		switch {
		case e.Run != nil:
			runs = append(runs, []entry{e})
		case len(runs) > 0:
			runs[len(runs)-1] = append(runs[len(runs)-1], e)
		}
	}
	return runs
}

func addTargets(targets map[string]bool, run []entry) map[string]bool {
	if targets == nil {
		targets = map[string]bool{}
	}
	for _, e := range run {
		if e.Target != "" {
			targets[e.Target] = true
		}
	}
	return targets
}

// compactLog rewrites the run log if that makes it shorter, so that it does not grow with each
// re-run.
func compactLog(store Store) error {
	lines, err := load[entry](store, entries)
	if err != nil {
		return err
	}
	short := compactEntries(lines)
	if len(short) == len(lines) {
		return nil
	}
	var text []byte
	for _, e := range short {
		text = append(text, encodeLine(e)...)
	}
	return store.Replace(entries, text)
}
