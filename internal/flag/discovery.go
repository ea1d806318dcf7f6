package flag

// WithDiscovery are these flags and those that say how a joining machine finds the cluster and what it shows there.
func WithDiscovery(names ...Name) []Name {
	return append(names, DiscoveryFile, DiscoveryToken, DiscoveryTokenHash, DiscoveryTokenUnsafe, TLSBootstrapToken, Token)
}
