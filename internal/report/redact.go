package report

import (
	"kubeadm/internal/redact"
	"kubeadm/internal/untrusted"
)

// Redact returns text without what has the form of a secret, and with control characters escaped, as
// everything is that this package shows or writes but what the user asked for.
func Redact(text string) string { return untrusted.Screen(redact.Message(text)) }
