package journal

// value is one line of the kept values.
type value struct {
	Run   Run    `json:"run"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// keptValues are what this run or an earlier one generated and a re-run needs.
type keptValues struct {
	store  Store
	run    Run
	values map[string]string
}

// openValues reads those of the same run. Values of a superseded one are not used again.
func openValues(store Store, run Run, superseded bool) (keptValues, error) {
	k := keptValues{store: store, run: run, values: map[string]string{}}
	lines, err := load[value](store, values)
	for _, v := range lines {
		if v.Run.same(run) && !superseded {
			k.values[v.Name] = v.Value
		}
	}
	return k, err
}

func (k *keptValues) once(name string, generate func() (string, error)) (string, error) {
	if v, ok := k.values[name]; ok {
		return v, nil
	}
	v, err := generate()
	if err != nil {
		return "", err
	}
	k.values[name] = v
	return v, k.store.Append(values,
		append([]byte{'\n'}, encodeLine(value{Run: k.run, Name: name, Value: v})...))
}

// LastValue returns the value of that name that the last run of the command kept, whatever its
// settings.
func LastValue(store Store, command, name string) (last string, ok bool, err error) {
	lines, err := load[value](store, values)
	for _, v := range lines {
		if v.Run.Command == command && v.Name == name {
			last, ok = v.Value, true
		}
	}
	return last, ok, err
}
