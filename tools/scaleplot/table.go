package main

import (
	"fmt"
	"slices"
	"strings"
)

// column is the measurements of one program in clusters of one size.
type column struct {
	program, title string
	nodes          int
}

// formatTables returns tables in Markdown, which have a row for each command. The first one has a column for each number of
// nodes, and one for each other program in the largest cluster that it was measured in; a program that was measured in more
// than one size has a table of its own below.
func formatTables(rows []row) string {
	sizes := map[string][]int{} // of the clusters of each program, in ascending order
	for _, p := range programs {
		for _, r := range rows {
			for _, m := range r.programs[p.id] {
				sizes[p.id] = append(sizes[p.id], m.Nodes)
			}
		}
		slices.Sort(sizes[p.id])
		sizes[p.id] = slices.Compact(sizes[p.id])
	}
	columnsOf := func(p program) (columns []column) {
		for _, n := range sizes[p.id] {
			title := formatCount(n) + " nodes"
			if p.id != "ours" {
				title = p.name + ", " + title
			}
			columns = append(columns, column{p.id, title, n})
		}
		return columns
	}
	var first []column
	var others string
	for _, p := range slices.Backward(programs) { // ours first
		columns := columnsOf(p)
		if p.id == "ours" || len(columns) == 0 {
			first = append(first, columns...)
			continue
		}
		first = append(first, columns[len(columns)-1])
		if len(columns) > 1 {
			others += "\n" + formatTable(rows, columns)
		}
	}
	return formatTable(rows, first) + others
}

// formatTable returns a table of the commands that have a measurement in one of the columns.
func formatTable(rows []row, columns []column) string {
	var b strings.Builder
	b.WriteString("| command |")
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, r := range rows {
		cells, isMeasured := "", false
		for _, c := range columns {
			i := slices.IndexFunc(r.programs[c.program], func(m measurement) bool { return m.Nodes == c.nodes })
			if i < 0 {
				cells += " |"
				continue
			}
			cells, isMeasured = cells+" "+formatCell(r.programs[c.program][i])+" |", true
		}
		if isMeasured {
			fmt.Fprintf(&b, "| %s |%s\n", r.code(), cells)
		}
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
