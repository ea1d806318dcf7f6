package reconfiguration

// BrokenAddon is the error of a change with which new Pods of CoreDNS or kube-proxy do not run.
type BrokenAddon struct{ Err error }

func (b *BrokenAddon) Error() string { return b.Err.Error() }

// Unwrap returns what is wrong with the Pods.
func (b *BrokenAddon) Unwrap() error { return b.Err }
