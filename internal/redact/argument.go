package redact

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Secrets of programs whose names do not say that they are secret: arguments, and lines of files.
var (
	// A user and a password of curl, crictl, etcdctl and others.
	userFlagForm = lazilyWith([]string{"-u", "creds", "--basic-auth"}, `((?:^|[\s"'\[(,])`+userFlags+`(?:\\*["'])?(?:=|,?[ \t]+|,|`+nextItem+`))(\\*["'][^"'\n]*|[^\s"']+)`)
	userFlag     = lazily(`^` + userFlags + `$`)
	numericUser  = lazily(`^[0-9]+:[0-9]+$`) // IDs of a user and a group
	// Arguments of programs. In one form, the arguments of one program would be looked for up to the end
	// of the line again at each argument of another one.
	programForms = []func() *expression{
		programForm([]string{"sshpass", "--from-literal"}, `\bsshpass\s+-p\s*|--from-literal(?:=|\s+)\\*["']?[A-Za-z0-9_.-]+=`),
		programForm([]string{"login"}, `\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|az|oc)\b[^\n"|;]*?\slogin\b[^\n|;]*?\s-p\s*`),
		programForm([]string{"mysql"}, `\bmysql[a-z]*\s[^\n|;]*?-p`),
		programForm([]string{"-cli"}, `\b(?:redis|keydb|valkey)-cli\b[^\n|;]*?\s-a\s+`),
		programForm([]string{"ldap"}, `\bldap[a-z]+\s[^\n|;]*?-w\s+`),
		programForm([]string{"curl"}, `\bcurl\b[^\n|;]*?\s-u[^\s:]+:`),
	}
	// A line of a static token or password file: the secret, the user, a numeric ID, and groups.
	staticTokenForm = lazilyWith([]string{","}, `(?m)(^|[\s"'])[^\s,"'=]{6,}=*(,[^\s,"'=]*[A-Za-z][^\s,"'=]*,(?:[0-9]+|[^\s,"'=]+,\\*"[^"\n]+")(?:[\s,"'\\]|$))`)
	// An environment variable whose value stands before its name.
	valueFirst = lazilyWith([]string{"value"}, `(?i)(\bvalue\\*["']?\s*[:=]\s*)(\\*"[^"\n]*"|[^\s",}]+)([\s,]+\\*["']?name\\*["']?\s*[:=]\s*\\*["']?[A-Za-z0-9_.-]*(?:`+secretWords+`|`+headerNames+`)\\*(?:["'\s,}]|$))`)
	// A string in quotes.
	quoted = lazily(`"(?:[^"\\\n]|\\.)*"`)
	keyEnd = lazily(`-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----`)
)

const userFlags = `(?:-u|-U|--user|--proxy-user|--userpwd|--(?:src-|dest-)?creds|--basic-auth)`

// programForm is what stands before a secret, and the secret.
func programForm(words []string, before string) func() *expression {
	return lazilyWith(words, `(?i)(`+before+`)(\\*["'][^"'\n]*|[^\s"'\\]+)`)
}

func hideArguments(text string) string {
	text = userFlagForm().ReplaceAllStringFunc(text, func(found string) string {
		parts := userFlagForm().FindStringSubmatch(found)
		value := strings.TrimLeft(parts[2], `\"'`)
		user, password, _ := strings.Cut(value, ":")
		if user == "" || password == "" || numericUser().MatchString(value) || strings.HasPrefix(password, "//") {
			return found
		}
		return strings.TrimSuffix(found, password) + hidden
	})
	for _, form := range programForms {
		text = form().ReplaceAllString(text, "${1}"+hidden)
	}
	text = staticTokenForm().ReplaceAllString(text, "${1}"+hidden+"${2}")
	return valueFirst().ReplaceAllString(text, "${1}"+hidden+"${3}")
}

// keyLimit is more than a private key has in PEM, with what a journal puts before each line.
const keyLimit = 8 << 10

// hideCutKey hides the end of a private key with which a text begins, as a log does that is cut.
func hideCutKey(text string) string {
	if end := keyEnd().FindStringIndex(text); end != nil && end[1] < keyLimit {
		return hidden + text[end[1]:]
	}
	return text
}

// hideInStrings hides the secrets in strings of several lines, whose form can be seen only there.
func hideInStrings(text string) string {
	if !strings.Contains(text, `\n`) {
		return text
	}
	return quoted().ReplaceAllStringFunc(text, func(found string) string {
		if !strings.Contains(found, `\n`) {
			return found
		}
		var inner string
		isJSON := json.Unmarshal([]byte(found), &inner) == nil
		if !isJSON {
			var err error
			if inner, err = strconv.Unquote(found); err != nil {
				return found
			}
		}
		clean := Text(inner)
		if clean == inner {
			return found
		}
		if !isJSON {
			return strconv.Quote(clean)
		}
		var again strings.Builder
		encoder := json.NewEncoder(&again)
		encoder.SetEscapeHTML(false)
		if encoder.Encode(clean) != nil {
			return hidden
		}
		return strings.TrimSuffix(again.String(), "\n")
	})
}
