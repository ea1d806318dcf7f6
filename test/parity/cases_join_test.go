package parity

// baseJoinConfig is a join by a token.
func baseJoinConfig() documents {
	return documents{"JoinConfiguration": {"discovery": map[string]any{
		"bootstrapToken": map[string]any{"token": "abcdef.abcdef0123456789",
			"apiServerEndpoint": "10.0.0.1:6443"},
	}}}
}
