// Package laws holds the properties that every workflow obeys, tried in the in-memory world: a
// preview tells the truth, every crash resumes, every failure can be undone, a second run changes
// nothing, every skip is explained, running side by side shows in nothing but the time it
// takes, and a finished command changes nothing whatever read fails. The files in testdata are the scripts of the workflows: what each changes and waits for, in order.
package laws
