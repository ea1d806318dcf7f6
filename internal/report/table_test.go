package report_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"kubeadm/internal/report"
)

func TestTable(t *testing.T) {
	var out strings.Builder
	table := report.NewTable(&out, 10, "NODE", "VERSION")
	table.Row("cp1", "v1.37.1")
	table.Row("worker1", "v1\x1b[2J\nworker2\tv9.9.9")
	table.Section("OTHER", "VERSION")
	table.Row("größe", "no  ")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "NODE      VERSION\ncp1       v1.37.1\nworker1   v1\\x1b[2J\\nworker2\\tv9.9.9\n" +
		"\nOTHER     VERSION\ngröße     no  \n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestTableReportsWriteErrors(t *testing.T) {
	table := report.NewTable(io.Writer(fullDisk{}), 0, "NODE")
	table.Row("cp1")
	if err := table.Flush(); err == nil {
		t.Error("no error")
	}
}
