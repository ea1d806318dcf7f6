// Package redact hides secrets in text. Message hides what has the form of a secret, and is for
// everything that this program says. Text, Document and Object also hide what is called a secret, and
// are for logs, files and objects of others.
package redact

import (
	"fmt"
	"strings"
)

// hidden stands for a secret.
const hidden = "[hidden]"

// Forms of secrets. They are matched without word boundaries: a space lost in copying attaches a
// token to the word before it.
var (
	// A bootstrap token, its dot possibly URL-encoded; one character of each half may be missing.
	tokenForm = lazilyWith([]string{".", "%2e"},
		`([a-z0-9]{5,})(?:\.|%2[eE])([a-z0-9]{15,})|([A-Z0-9]{5,})(?:\.|%2[eE])([A-Z0-9]{15,})`)
	// A certificate key has 64 hex digits; most of one is secret too. Names of nodes and IDs of
	// containers can look the same: see isName.
	keyForm = lazily(`[0-9a-fA-F]{48,}`)
	// Words that say what follows them. After the first group it is a name or an ID; after the second
	// a certificate key; after the third what was typed somewhere, which can be a key.
	wordForm = lazily(`(?i)(node|name|host|container|sandbox|pod|\bid\b|crictl|hash|digest|fingerprint|valid for)` +
		`|(key)|(token|argument|flag|command|phase|format|file|=\S+\s|--[a-z])`)
	// The field whose value begins at the end of the text.
	fieldForm = lazily(`(\w[\w.-]*)\\*["']?\s*[:=]\s*[\\"'\[{/]*$`)
	// The end of a text before the rest of a name, and the beginning of one after it.
	nameBefore = lazily(`[A-Za-z0-9][-._]$|/$`)
	nameAfter  = lazily(`^(?:[-._/][A-Za-z0-9]|=https?:)`)
	// The prefix of a public checksum: the pin of a CA, the digest of an image.
	checksumForm = lazily(`(?i)sha(?:256|384|512)[:%\s]$`)
	// A URL in quotes, and one up to the first character that cannot be part of one. In one form, quotes
	// without an end would be looked for again at each URL after them.
	quotedURLForm = lazilyWith([]string{"://"}, `"[a-zA-Z][a-zA-Z0-9+.-]*://(?:\\.|[^"\\])*"`)
	urlForm       = lazilyWith([]string{"://"}, "[a-zA-Z][a-zA-Z0-9+.-]*://[^\\s\"'`<>]+")
	// A user and a password without a scheme before them, as in "me:secret@proxy:3128".
	userForm = lazilyWith([]string{"@"}, `([^\s"'/@:=,;]+):[^\s"'/@]+@([A-Za-z0-9\[]+)`)
	// Go's error for a proxy in the environment that is no URL: it repeats all of it, and then a
	// part of it.
	proxyForm = lazily(`invalid proxy address "(?:\\.|[^"\\])*"(?:: .*)?`)
	// What Go parses as the port of a URL may be a password.
	portForm = lazily(`invalid port "(?:\\.|[^"\\])*" after host`)
)

const (
	tokenIDLength     = 6
	tokenSecretLength = 16
	exampleSecret     = "0123456789abcdef" // of the token that help and documents show
)

// Message hides what has the form of a secret: the second half of bootstrap tokens, certificate keys,
// private keys, credentials of known issuers, headers of HTTP that authenticate, and users, passwords
// and signatures in URLs. IDs of tokens, pins of CAs and digests of images are no secrets and stay.
func Message(text string) string {
	text = hideCredentials(text)
	// users and passwords in URLs, well formed or not
	text = proxyForm().ReplaceAllString(text, "invalid proxy address [hidden]")
	text = portForm().ReplaceAllString(text, "invalid port after host")
	text = quotedURLForm().ReplaceAllStringFunc(text, redactUser)
	text = urlForm().ReplaceAllStringFunc(text, redactUser)
	text = userForm().ReplaceAllStringFunc(text, func(found string) string {
		user, _, _ := strings.Cut(found, ":")
		at := strings.LastIndex(found, "@")
		// a name of Kubernetes, a digest
		if user == "system" || strings.HasPrefix(strings.ToLower(found[at+1:]), "sha") {
			return found
		}
		return hidden + found[at:]
	})
	return redactKeys(redactTokens(text))
}

func redactTokens(text string) string {
	var safe strings.Builder
	end := 0
	for _, at := range tokenForm().FindAllStringSubmatchIndex(text, -1) {
		id, secret := at[2:4], at[4:6]
		if id[0] < 0 {
			id, secret = at[6:8], at[8:10]
		}
		// Host names and file names have parts that are as long: such words rarely have digits, and
		// the random secret of a token has none once in two hundred times.
		word := text[secret[0]:secret[1]]
		complete := id[1]-id[0] >= tokenIDLength && len(word) == tokenSecretLength
		if word == exampleSecret || !complete && !strings.ContainsAny(word, "0123456789") {
			continue
		}
		safe.WriteString(text[end:secret[0]])
		safe.WriteString(hidden)
		end = secret[1]
	}
	return safe.String() + text[end:]
}

func redactKeys(text string) string {
	var safe strings.Builder
	end := 0
	for _, at := range keyForm().FindAllStringIndex(text, -1) {
		if checksumForm().MatchString(text[max(0, at[0]-12):at[0]]) || isName(text, at[0], at[1]) {
			continue
		}
		safe.WriteString(text[end:at[0]])
		fmt.Fprintf(&safe, "[%d hex digits hidden]", at[1]-at[0])
		end = at[1]
	}
	return safe.String() + text[end:]
}

// isName reports whether the hex digits between begin and end are the name of something, or a part of
// one: the text before them says so, or they are nothing that a random key could be. In doubt they are
// a key.
func isName(text string, begin, end int) bool {
	recent := text[max(0, begin-longLine/8):begin]
	line := recent[strings.LastIndexByte(recent, '\n')+1:]
	if field := fieldForm().FindStringSubmatch(line); field != nil && field[1] != "value" {
		line = field[1]
	}
	var is []int
	if words := wordForm().FindAllStringSubmatchIndex(line, -1); len(words) > 0 {
		is = words[len(words)-1]
	}
	switch digits := text[begin:end]; {
	case is != nil && is[4] >= 0:
		return false
	case nameBefore().MatchString(line) || nameAfter().MatchString(text[end:]),
		!strings.ContainsAny(digits, "0123456789"), strings.Trim(digits, "0123456789") == "":
		return true
	}
	return is != nil && is[2] >= 0
}

// redactUser hides what stands before the "@" of a URL's authority. A password may hold characters
// that should have been escaped, so the last "@" counts, unless the authority ends before it as
// one without a user does.
func redactUser(address string) string {
	scheme, rest, _ := strings.Cut(address, "://")
	at := strings.LastIndex(rest, "@")
	for at >= 0 && strings.EqualFold(rest[at+1:min(len(rest), at+4)], "sha") {
		at = strings.LastIndex(rest[:at], "@") // before it is the digest of an image
	}
	authority := rest[:strings.IndexAny(rest+"/", "/?#")]
	if at < 0 || !strings.Contains(authority, "@") && hostForm().MatchString(authority) {
		return address
	}
	return scheme + "://[hidden]" + rest[at:]
}

// hostForm is a host with or without a port.
var hostForm = lazily(`^(?:[^:\[\]]+|\[[^\]]*\])(?::[0-9]+)?$`)
