package memory

import (
	"io/fs"
	"slices"
	"strings"

	"kubeadm/internal/change"
	"kubeadm/internal/state"
)

// changeSystem carries out a change of the init system's configuration or of the kernel, which cannot
// fail.
func (w *World) changeSystem(c change.Change) {
	switch c := c.(type) {
	case change.EnableService:
		if s, ok := w.Services[c.Name]; ok || c.Enabled {
			s.Exists, s.Enabled = true, c.Enabled
			w.Services[c.Name] = s
		}
	case change.SetSysctl:
		w.Files[c.Path()] = File{Data: []byte(c.Value + "\n"), Mode: 0o644, ModTime: w.Now()}
	case change.SetModule:
		delete(w.Files, state.ModulePath(c.Name))
		if c.Loaded {
			w.Files[state.ModulePath(c.Name)] = File{Mode: fs.ModeDir | 0o755, ModTime: w.Now()}
		}
		if setting := (change.SetSysctl{Name: "net.bridge.bridge-nf-call-iptables"}).Path(); c.Loaded &&
			c.Name == "br_netfilter" { // the module has the parameter
			w.Files[setting] = File{Data: []byte("1\n"), Mode: 0o644, ModTime: w.Now()}
		}
	case change.SetSwap:
		w.setSwap(c)
	}
}

func (w *World) setSwap(c change.SetSwap) {
	file, area := w.Files[state.SwapsFile], strings.ReplaceAll(c.Area, " ", `\040`)+" "
	lines := slices.DeleteFunc(strings.SplitAfter(string(file.Data), "\n"),
		func(line string) bool { return line == "" || strings.HasPrefix(line, area) })
	if c.On {
		lines = append(lines, area+"file 1024 0 -2\n")
	}
	file.Data = []byte(strings.Join(lines, ""))
	w.Files[state.SwapsFile] = file
}
