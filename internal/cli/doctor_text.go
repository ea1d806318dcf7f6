package cli

import (
	"fmt"
	"io"
	"strings"

	"kubeadm/internal/doctor"
)

// writeDiagnosis prints a diagnosis as text: by group, first what is wrong.
func writeDiagnosis(out io.Writer, d doctor.Diagnosis) error {
	var b strings.Builder
	role := map[string]string{"control-plane": "a control plane node", "worker": "a worker node"}[d.Machine.Role]
	if role == "" {
		role = "not a node of a cluster"
	}
	fmt.Fprintf(&b, "%s is %s", d.Machine.Name, role)
	if d.Machine.Kubeconfig != "" {
		fmt.Fprintf(&b, "; the cluster was read with %s", d.Machine.Kubeconfig)
	}
	fmt.Fprintln(&b, ".")
	errs, warnings, passed := 0, 0, 0
	for _, g := range doctor.Groups() {
		fmt.Fprintf(&b, "\n%s\n", groupHeadings()[g])
		for _, f := range d.Findings {
			if f.Group != g {
				continue
			}
			if f.Severity == doctor.Error {
				errs++
			} else {
				warnings++
			}
			writeFinding(&b, f)
		}
		for _, n := range d.NotChecked {
			if n.Group == g {
				fmt.Fprintf(&b, "  not checked: %s: %s\n", n.Check, n.Reason)
			}
		}
		if list := d.Passed[g]; len(list) > 0 {
			passed += len(list)
			fmt.Fprintf(&b, "  passed: %s\n", strings.Join(list, ", "))
		}
	}
	summary := "nothing is wrong"
	if errs+warnings > 0 {
		summary = counted(errs, "error") + ", " + counted(warnings, "warning")
	}
	fmt.Fprintf(&b, "\nResult: %s; %s passed, %d not run.\n", summary, counted(passed, "check"),
		len(d.NotChecked))
	_, err := io.WriteString(out, b.String())
	return err
}

func groupHeadings() map[doctor.Group]string {
	return map[doctor.Group]string{doctor.Host: "Host", doctor.Node: "Node", doctor.Cluster: "Cluster"}
}

func writeFinding(b *strings.Builder, f doctor.Finding) {
	fmt.Fprintf(b, "  %s: %s: %s\n", f.Severity, f.Check, indentRest(f.Text))
	if f.Fixable {
		f.Command += " (or kubeadm doctor --fix)"
	}
	for _, line := range []struct{ name, text string }{
		{"evidence", f.Evidence}, {"why", f.Why}, {"remedy", f.Remedy}, {"command", f.Command},
	} {
		if line.text != "" {
			fmt.Fprintf(b, "    %-9s %s\n", line.name+":", indentRest(line.text))
		}
	}
}

// indentRest indents all lines but the first, so that none of them looks like a line of this program.
func indentRest(text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 14))
}

// counted is "1 error" or "2 errors".
func counted(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", count, what)
}
