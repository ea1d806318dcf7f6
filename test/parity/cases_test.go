package parity

import "slices"

// allCases returns the cases, in the order in which they start.
func allCases() []testCase {
	return slices.Concat(plainCases(), initCases(), certsCases(), renewalCases(), treeCases(), outputCases(),
		preflightCases(), checkCases(), patchCases(), resetCases(), configCases(), clusterCases(),
		upgradeCases())
}

// plainCases need nothing on the machine.
func plainCases() []testCase {
	var list []testCase
	add := func(name string, steps ...step) {
		list = append(list, testCase{name: name, steps: steps})
	}
	add("token generate", compareOutput("token generate", matchOutput(`[a-z0-9]{6}\.[a-z0-9]{16}`)))
	add("certificate key", compareOutput("certs certificate-key", matchOutput(`[0-9a-f]{64}`)))
	add("version short", compareOutput("version -o short", asLines))
	add("version yaml", compareOutput("version -o yaml", asDocuments))
	add("version json", compareOutput("version -o json", asDocuments))
	add("version unknown output", ignoreOutput("version -o xml"))
	add("dry run without a file",
		compareOutput("init --dry-run --skip-phases=preflight --token=abcdef.0123456789abcdef",
			asDryRun))
	return list
}
