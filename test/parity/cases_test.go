package parity

import "slices"

// all are the cases, in the order in which they start.
func all() []testCase {
	return slices.Concat(plainCases(), initCases(), certsCases(), treeCases(), outputCases(), preflightCases(), checkCases(), patchCases(), resetCases(), configCases(), clusterCases())
}

// plainCases need nothing on the machine.
func plainCases() []testCase {
	var list []testCase
	add := func(name string, steps ...step) { list = append(list, testCase{name: name, steps: steps}) }
	add("token generate", read("token generate", like(`[a-z0-9]{6}\.[a-z0-9]{16}`)))
	add("certificate key", read("certs certificate-key", like(`[0-9a-f]{64}`)))
	add("version short", read("version -o short", asLines))
	add("version yaml", read("version -o yaml", asDocuments))
	add("version json", read("version -o json", asDocuments))
	add("version unknown output", do("version -o xml"))
	add("dry run without a file", read("init --dry-run --skip-phases=preflight --token=abcdef.0123456789abcdef", asDryRun))
	return list
}
