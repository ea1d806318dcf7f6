package journal

// value is one line of the kept values.
type value struct {
	Run   RunID  `json:"run"`
	Name  string `json:"name"`
	Value string `json:"value"`
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
