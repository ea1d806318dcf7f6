package journal

import "slices"

// compact leaves out what later lines say again: where a run came to its end, no earlier run that was just the same need
// tell of a target that it wrote down as well. Whoever reads what is left comes to the same conclusions, except that a file
// is ours only with what that last run wrote.
func compact(lines []entry) []entry {
	runs := split(lines)
	ended := map[Run]map[string]bool{} // targets of runs that came to their end, later ones than that in hand
	var kept [][]entry
	for _, run := range slices.Backward(runs) {
		said, again := ended[*run[0].Run]
		own := slices.DeleteFunc(slices.Clone(run), func(e entry) bool { return said[e.Target] })
		if !again || slices.ContainsFunc(own, func(e entry) bool { return e.Target != "" || e.Undone != "" }) {
			kept = append(kept, own)
		}
		if run[len(run)-1].End {
			ended[*run[0].Run] = with(said, run)
		}
	}
	slices.Reverse(kept)
	return slices.Concat(kept...)
}

// split gives each run the lines from its beginning to the next one's. What comes before the first belongs to none.
func split(lines []entry) (runs [][]entry) {
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

func with(targets map[string]bool, run []entry) map[string]bool {
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

// tidy writes the journal anew if that makes it shorter, so that it does not grow with each time that a command is given again.
func (w *World) tidy() error {
	lines, err := load[entry](w.store, entries)
	if err != nil {
		return err
	}
	short := compact(lines)
	if len(short) == len(lines) {
		return nil
	}
	var text []byte
	for _, e := range short {
		text = append(text, encode(e)...)
	}
	return w.store.Replace(entries, text)
}
