package journal

import "slices"

// compactLog rewrites the run log if that makes it shorter, so that it does not grow with each
// re-run. It leaves out what later lines repeat: where a run finished, an earlier run that was
// just the same need not record the targets that the later one recorded. Reading what is left has
// the same results, except that a file is ours only with what that last run wrote.
func compactLog(store Store) error {
	lines, err := load[entry](store, entries)
	if err != nil {
		return err
	}
	var runs [][]entry // lines before the first run belong to none
	for _, e := range lines {
		switch {
		case e.Run != nil:
			runs = append(runs, []entry{e})
		case len(runs) > 0:
			runs[len(runs)-1] = append(runs[len(runs)-1], e)
		}
	}
	// targets of finished runs later than the one being looked at
	ended := map[RunID]map[string]bool{}
	var kept [][]entry
	for _, run := range slices.Backward(runs) {
		repeated, again := ended[*run[0].Run]
		own := slices.DeleteFunc(slices.Clone(run),
			func(e entry) bool { return repeated[e.Target] })
		if !again || slices.ContainsFunc(own,
			func(e entry) bool { return e.Target != "" || e.Undone != "" }) {
			kept = append(kept, own)
		}
		if !run[len(run)-1].End {
			continue
		}
		if !again {
			repeated = map[string]bool{}
			ended[*run[0].Run] = repeated
		}
		for _, e := range run {
			if e.Target != "" {
				repeated[e.Target] = true
			}
		}
	}
	slices.Reverse(kept)
	short := slices.Concat(kept...)
	if len(short) == len(lines) {
		return nil
	}
	var text []byte
	for _, e := range short {
		text = append(text, encodeLine(e)...)
	}
	return store.Replace(entries, text)
}
