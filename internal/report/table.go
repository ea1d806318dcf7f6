package report

import (
	"io"
	"strings"
	"text/tabwriter"

	"kubeadm/internal/untrusted"
)

// Table writes rows in aligned columns. Cells may hold text of other origin, such as what a kubelet
// reports as its version: what a terminal would obey is escaped, and a cell is always one line.
type Table struct{ w *tabwriter.Writer }

// NewTable begins a table with its header. Columns are at least minWidth characters wide.
func NewTable(out io.Writer, minWidth int, header ...string) *Table {
	t := &Table{tabwriter.NewWriter(out, minWidth, 4, 3, ' ', 0)}
	t.Row(header...)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		if i > 0 {
			t.write("\t")
		}
		t.write(oneLine.Replace(untrusted.Screen(cell)))
	}
	t.write("\n")
}

// oneLine escapes what would begin another line or column.
var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

// Section adds an empty line and another header, with the same column widths.
func (t *Table) Section(header ...string) {
	t.write("\n")
	t.Row(header...)
}

// Flush writes the table. It returns the first error of all writes.
func (t *Table) Flush() error { return t.w.Flush() }

// write only fills the buffer of the tabwriter, which is why errors appear in Flush.
func (t *Table) write(text string) { _, _ = io.WriteString(t.w, text) }
