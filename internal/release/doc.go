// Package release knows versions: which Kubernetes releases this program
// deploys, what comes with them, which versions go together and what their
// images are called. It reaches no network; what must be fetched is fetched by
// a function of the caller's.
package release
