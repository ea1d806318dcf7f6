package upgrade

import (
	"github.com/pmezard/go-difflib/difflib"
)

// Diff is the unified diff of two texts, with lines of context around each change; empty if they
// are equal.
func Diff(from, to Text, context int) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(from.Content), FromFile: from.Name,
		B: difflib.SplitLines(to.Content), ToFile: to.Name,
		Context: context,
	})
	if err != nil {
		panic(err) // a string can always be written to
	}
	return text
}

// Text is one side of a Diff.
type Text struct{ Name, Content string }
