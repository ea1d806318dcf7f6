package redact

// Lines of a Corefile whose words are credentials: of the plugins etcd, route53 and azure, and of keys of others. Also as a
// line of a diff.
var corefileForm = lazily(`(?m)^([-+ ]?\s*(?:credentials|aws_access_key|secret|password|token)[ \t]+)\S[^\n]*$`)

// Corefile is Text for a text with a Corefile in it, in which a blank stands between a word and its secret.
func Corefile(text string) string {
	return Text(corefileForm().ReplaceAllString(text, "${1}"+hidden))
}
