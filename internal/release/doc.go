// Package release holds what depends on versions: which Kubernetes releases this program supports,
// their images and flags, and which versions work together (version skew). It does not use the
// network: the caller passes a function that fetches.
package release
