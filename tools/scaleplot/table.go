package main

import (
	"fmt"
	"slices"
	"strings"
)

// formatTable returns a table in Markdown: a row for each command, a column for each number of nodes, and one for
// each other program in the largest cluster that it was measured in.
func formatTable(rows []row) string {
	var sizes []int
	others := map[string]int{} // the largest number of nodes of each other program
	for _, r := range rows {
		for id, all := range r.programs {
			for _, m := range all {
				if id == "ours" {
					sizes = append(sizes, m.Nodes)
				} else {
					others[id] = max(others[id], m.Nodes)
				}
			}
		}
	}
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	head, rule := []string{"command"}, "|---|"
	type column struct {
		program string
		nodes   int
	}
	var columns []column
	for _, n := range sizes {
		columns, head = append(columns, column{"ours", n}), append(head, formatCount(n)+" nodes")
		rule += "---|"
	}
	for _, p := range slices.Backward(programs) {
		if n := others[p.id]; n > 0 {
			columns, head = append(columns, column{p.id, n}), append(head, p.name+", "+formatCount(n)+" nodes")
			rule += "---|"
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |\n%s\n", strings.Join(head, " | "), rule)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s |", r.code())
		for _, c := range columns {
			i := slices.IndexFunc(r.programs[c.program], func(m measurement) bool { return m.Nodes == c.nodes })
			if i < 0 {
				b.WriteString(" |")
				continue
			}
			fmt.Fprintf(&b, " %s |", formatCell(r.programs[c.program][i]))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// code returns the command as code, and what was measured of it, in brackets, as text.
func (r row) code() string {
	command, rest, found := strings.Cut(strings.Join(r.words(), " "), " (")
	if !found {
		return "`" + command + "`"
	}
	return "`" + command + "` (" + rest
}

func formatCell(m measurement) string {
	return fmt.Sprintf("%.0f · %s · %.0f MB · %.1f s", m.Requests, formatBytes(m.Bytes), m.Memory/(1<<20), m.Seconds)
}
