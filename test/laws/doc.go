// Package laws tests the properties of every workflow in the in-memory world: a dry run matches
// the run, a run resumes after any crash, a failed run can be undone, a second run changes
// nothing, an error after a skipped phase names that phase, parallel phases differ from serial
// ones in duration only, and a finished command changes nothing whatever read fails. The files in
// testdata are the scripts of the workflows: what each changes and waits for, in order.
package laws
