// Package state describes what can be read from a machine and its cluster: files, services, the
// container runtime, etcd members and API objects. Reader is the interface that every command reads
// through; nothing here changes anything.
package state
