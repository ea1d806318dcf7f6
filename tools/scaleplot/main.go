// Command scaleplot shows how the costs of commands grow with the number of nodes, as test/scale has
// measured them: in SVG, a row of small charts for each command, and as tables in Markdown.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"kubeadm/tools/internal/chart"
)

func main() {
	in := flag.String("json", "", "file that test/scale has written, see KUBEADM_SCALE_JSON")
	out := flag.String("svg", "", "file to draw to")
	tables := flag.Bool("markdown", false, "print tables")
	flag.Parse()
	err := errors.New("scaleplot needs --json, and --svg or --markdown, and takes no arguments")
	if flag.NArg() == 0 && *in != "" && (*out != "" || *tables) {
		err = showFile(*in, *out, *tables)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// showFile draws the measurements of a file to another one, if that has a name, and prints them as tables, if asked for.
func showFile(in, out string, tables bool) error {
	data, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	rows, err := readRows(data)
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if out != "" {
		err = chart.Write(out, drawRows(rows))
	}
	if err == nil && tables {
		_, err = fmt.Print(formatTables(rows))
	}
	return err
}

// measurement is what a command has cost in a cluster of some size.
type measurement struct {
	Program, Command string
	Nodes            int
	Requests         float64
	Bytes, Memory    float64 // bytes from the API server, and of the largest resident set
	Seconds          float64
}

// row has the measurements of one command, from the smallest cluster to the largest.
type row struct {
	command  string
	programs map[string][]measurement
}

// readRows returns a row for each command, in the order of the file.
func readRows(data []byte) ([]row, error) {
	var report struct{ Results []measurement }
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, err
	}
	if len(report.Results) == 0 {
		return nil, errors.New("it has no results")
	}
	slices.SortStableFunc(report.Results, func(a, b measurement) int {
		return cmp.Compare(a.Nodes, b.Nodes)
	})
	var rows []row
	for _, m := range report.Results {
		if m.Nodes < 1 {
			return nil, fmt.Errorf("nodes of %q is %d, at least 1 is expected", m.Command, m.Nodes)
		}
		if !slices.ContainsFunc(programs, func(p program) bool { return p.id == m.Program }) {
			return nil, fmt.Errorf("program of %q is %q, which is unknown", m.Command, m.Program)
		}
		i := slices.IndexFunc(rows, func(r row) bool { return r.command == m.Command })
		if i < 0 {
			i, rows = len(rows), append(rows, row{m.Command, map[string][]measurement{}})
		}
		rows[i].programs[m.Program] = append(rows[i].programs[m.Program], m)
	}
	return rows, nil
}

// title splits a command into its name with arguments, and its flags without their values.
func (r row) title() (name, flags string) {
	var names, shown []string
	for _, word := range r.words() {
		if strings.HasPrefix(word, "-") {
			shown = append(shown, word)
		} else {
			names = append(names, word)
		}
	}
	return strings.Join(names, " "), strings.Join(shown, " ")
}

// words returns the words of a command, flags without their values. Flags that only let the command run
// unattended on the measured node are left out.
func (r row) words() (words []string) {
	for _, word := range strings.Fields(r.command) {
		word, _, _ = strings.Cut(word, "=")
		if !slices.Contains([]string{"--ignore-preflight-errors", "--yes", "--force"}, word) {
			words = append(words, word)
		}
	}
	return words
}
