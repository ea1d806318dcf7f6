package journal

// LastValue returns the value of that name that the last run of the command kept, whatever its settings.
func LastValue(store Store, command, name string) (last string, ok bool, err error) {
	kept, err := load[value](store, values)
	for _, v := range kept {
		if v.Run.Command == command && v.Name == name {
			last, ok = v.Value, true
		}
	}
	return last, ok, err
}

// LastFinished reports whether the last run of the command finished, whatever its settings, and which targets
// it or an earlier run of the same command recorded.
func LastFinished(store Store, command string) (recorded func(target string) bool, ok bool, err error) {
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
