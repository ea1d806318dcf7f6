package doctor

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"kubeadm/internal/report"
)

// hidden stands for a secret.
const hidden = "[hidden]"

// Forms of secrets in files, objects and logs, besides those that package report knows: bootstrap
// tokens, certificate keys, and users in URLs.
var (
	// A block of PEM that is not a certificate. One that is cut off ends with the text.
	pemForm = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----|$)`)
	// PEM in base64, as kubeconfigs and Secrets have it; what it contains cannot be seen.
	encodedPEMForm = regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]*`)
	// A JSON web token (RFC 7519), such as that of a ServiceAccount.
	jwtForm    = regexp.MustCompile(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*`)
	bearerForm = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	// What comes before a secret value: a name as in YAML, JSON, TOML, an argument or an environment file;
	// the name and the value of an environment variable as in a Pod or in Go's format of one; or a flag
	// whose value is the next word or item, which is the group. Quotes may be escaped, as in JSON within
	// JSON.
	settingForm = regexp.MustCompile(`(?i)(?:` + secretWords + `)(?:\\*["'])?\]?\s*[:=]+>?\s*(?:-\s+)?` +
		`|\bname\\*["']?\s*[:=]\s*\\*["']?[A-Za-z0-9_.-]*(?:` + secretWords + `)\\*["']?[\s,;]+\\*["']?value\\*["']?\s*[:=]\s*` +
		`|(?:^|[\s"'\[(,=])(--?[A-Za-z0-9_.-]*(?:` + secretWords + `)(?:\\*["'])?(?:[ \t]*,\s*|[ \t]+|[ \t]*\r?\n\s*-\s+))`)
	secretName = regexp.MustCompile(`(?i)(?:` + secretWords + `)$`)
	secretFlag = regexp.MustCompile(`(?i)^--?[A-Za-z0-9_.-]*(?:` + secretWords + `)$`)
	// A block of YAML, whose lines follow, and one within a string of JSON.
	blockForm        = regexp.MustCompile(`^[|>][0-9+-]*[ \t]*(?:#[^\n]*)?\r?\n`)
	escapedBlockForm = regexp.MustCompile(`^[|>][0-9+-]*[ \t]*\\+[rn][^"\n]*`)
	quoteForm        = regexp.MustCompile(`^\\*["']`)
	wordForm         = regexp.MustCompile(`^(?:\[[^\]\n]*\]?|[^\s"]+)`)
)

// secretWords are the ends of the names of settings that have a secret value.
const secretWords = `passwords?|passwd|passphrase|passcode|pwd|(?:\b|_)(?:pass|pw|psk|dsn)|secret|token|auth|` +
	`(?:api|access|private|secret|certificate|encryption|encrypt|signing|master|account|shared|storage|session|cookie|hmac|aes|ssh)[_-]?key|` +
	`client-key-data|credentials?|connection[_-]?string`

// withoutSecrets returns a text of any kind without secrets.
func withoutSecrets(text string) string {
	text = pemForm.ReplaceAllString(text, hidden)
	text = encodedPEMForm.ReplaceAllString(text, hidden)
	text = jwtForm.ReplaceAllString(text, hidden)
	text = bearerForm.ReplaceAllString(text, "$1 "+hidden)
	return report.Redact(hideSettings(text))
}

// hideSettings hides the values of settings whose names say that they are secret.
func hideSettings(text string) string {
	var clean strings.Builder
	done := 0
	for _, at := range settingForm.FindAllStringSubmatchIndex(text, -1) {
		begin := at[1]
		if begin < done {
			continue // a name within a value that is hidden
		}
		end := begin + lengthOfValue(text, begin)
		value := text[begin:end]
		isNextFlag := at[2] >= 0 && strings.HasPrefix(strings.TrimLeft(value, `\"'`), "--")
		isNextName := strings.HasSuffix(value, ":") && strings.Contains(text[at[0]:begin], "\n")
		if value == "" || value[0] == '{' || isNextFlag || isNextName {
			continue // the names of the fields decide, or it is no value
		}
		clean.WriteString(text[done:begin] + hidden)
		if done = end; strings.HasSuffix(value, "\n") {
			clean.WriteByte('\n')
		}
	}
	return clean.String() + text[done:]
}

// lengthOfValue returns the length of the value that begins in a text: a block of YAML, a string in
// quotes, a list, or a word.
func lengthOfValue(text string, begin int) int {
	rest := text[begin:]
	if block := blockForm.FindString(rest); block != "" {
		line := text[strings.LastIndexByte(text[:begin], '\n')+1:]
		return len(block) + lengthOfBlock(rest[len(block):], indentation(line))
	}
	if block := escapedBlockForm.FindString(rest); block != "" {
		return len(block)
	}
	if quote := quoteForm.FindString(rest); quote != "" {
		return lengthOfString(rest, quote)
	}
	return len(wordForm.FindString(rest))
}

// indentation returns how far the name in a line of YAML is indented, as an item of a list too.
func indentation(line string) int { return len(line) - len(strings.TrimLeft(line, " -")) }

// lengthOfBlock returns the length of the lines that are empty or indented more than their name.
func lengthOfBlock(text string, indent int) (length int) {
	for line := range strings.Lines(text) {
		isEmpty := strings.TrimSpace(line) == ""
		if !isEmpty && len(line)-len(strings.TrimLeft(line, " ")) <= indent {
			break
		}
		length += len(line)
	}
	return length
}

// lengthOfString returns the length of the string that begins with a quote, which is escaped as often
// as the string is within another one. Without an end it has the rest of the line.
func lengthOfString(text, quote string) int {
	mark := quote[len(quote)-1:]
	if long := strings.Repeat(mark, 3); quote == mark && strings.HasPrefix(text, long) { // TOML
		if length := strings.Index(text[3:], long); length >= 0 {
			return length + 6
		}
	}
	escapes := len(quote) - 1
	for i := len(quote); i < len(text); i++ {
		if text[i] != mark[0] {
			continue
		}
		before := text[len(quote):i]
		count := len(before) - len(strings.TrimRight(before, `\`))
		switch {
		case count%(2*(escapes+1)) != escapes: // a quote in the string
		case quote == "'" && strings.HasPrefix(text[i+1:], "'"): // so YAML writes one
			i++
		default:
			return i + 1
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	return len(line)
}

// documentEnd is the line between two documents of YAML.
var documentEnd = regexp.MustCompile(`(?m)^---[ \t]*\r?\n`)

// errorLine is the line in a parse error. The rest of it may quote the text.
var errorLine = regexp.MustCompile(`\bline ([0-9]+)`)

// fileWithoutSecrets is withoutSecrets for the contents of a file of YAML or JSON. It also finds secrets
// by their place: the values of fields and of environment variables whose names say so, the arguments
// after flags, and annotations with a copy of the whole object. The error of a file that cannot be
// parsed has the line and nothing of its text.
func fileWithoutSecrets(data []byte) ([]byte, error) {
	documents, err := parseDocuments(string(data))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, value := range documents {
		text, err := yaml.Marshal(cleanValue("", value))
		if err != nil {
			return nil, err
		}
		all = append(all, withoutSecrets(string(text)))
	}
	return []byte(strings.Join(all, "---\n")), nil
}

// parseDocuments parses documents of YAML or JSON. Those that have only comments are left out.
func parseDocuments(text string) ([]any, error) {
	var all []any
	var value any
	if json.Unmarshal([]byte(text), &value) == nil {
		return []any{value}, nil
	}
	first := 0 // lines before the document
	for _, document := range documentEnd.Split(text, -1) {
		var value any
		if err := yaml.Unmarshal([]byte(document), &value); err != nil {
			found := errorLine.FindStringSubmatch(err.Error())
			if found == nil {
				return nil, errors.New("it cannot be parsed as YAML or JSON")
			}
			line, _ := strconv.Atoi(found[1])
			return nil, fmt.Errorf("it cannot be parsed as YAML or JSON, near line %d", first+line)
		}
		if value != nil {
			all = append(all, value)
		}
		first += strings.Count(document, "\n") + 1
	}
	return all, nil
}

// cleanValue returns the value of a field without secrets.
func cleanValue(name string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range []string{"name", "key"} { // an environment variable, or an argument
			if n, ok := v[key].(string); ok && secretName.MatchString(n) && v["value"] != nil {
				v["value"] = hidden
			}
		}
		delete(v, "managedFields")
		for key, inner := range v {
			isOfSecret := v["kind"] == "Secret" && (key == "data" || key == "stringData")
			if isOfSecret || strings.HasSuffix(key, "last-applied-configuration") {
				v[key] = hidden
				continue
			}
			v[key] = cleanValue(key, inner)
		}
		return v
	case []any:
		isAfterFlag := false
		for i := range v {
			text, isText := v[i].(string)
			if isAfterFlag && isText && !strings.HasPrefix(text, "--") {
				v[i] = hidden
			} else {
				v[i] = cleanValue(name, v[i])
			}
			isAfterFlag = isText && secretFlag.MatchString(text)
		}
		return v
	case string:
		if secretName.MatchString(name) {
			return hidden
		}
		return cleanText(v)
	case float64:
		if secretName.MatchString(name) {
			return hidden
		}
	}
	return value
}

// cleanText returns a string without secrets, which may be a document in a document, as in a ConfigMap.
// A document of JSON stays one.
func cleanText(text string) string {
	if !strings.Contains(text, "\n") && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return withoutSecrets(text)
	}
	documents, err := parseDocuments(text)
	if err != nil {
		return withoutSecrets(text)
	}
	var all []string
	for _, value := range documents {
		var clean []byte
		switch value.(type) {
		case map[string]any, []any:
		default:
			return withoutSecrets(text)
		}
		if value = cleanValue("", value); json.Valid([]byte(text)) {
			clean, err = json.MarshalIndent(value, "", "  ")
		} else {
			clean, err = yaml.Marshal(value)
		}
		if err != nil {
			return withoutSecrets(text)
		}
		all = append(all, string(clean))
	}
	return withoutSecrets(strings.Join(all, "---\n"))
}

// encodeWithoutSecrets is the YAML of a value without secrets.
func encodeWithoutSecrets(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(cleanValue("", fields))
	return []byte(withoutSecrets(string(data))), err
}
