package redact

import (
	"strings"
)

// What comes before a secret in files, objects and logs.
var (
	// A name as in YAML, JSON, TOML, XML, an argument or an environment file; the name and the value of
	// an environment variable or a header as in a Pod or in Go's format of one; a flag whose value is
	// the next word or item, which is the first group; or a password that follows a blank, the second
	// group. Quotes may be escaped, as in JSON within JSON.
	settingForm = lazilyWith(settingWords, `(?i)(?:`+secretWords+`)(?:\\*["'])?\]?\s*[:=]+>?[ \t]*`+
		`|(?:<|\\+u003c)[a-z0-9:_-]*(?:`+secretWords+`)(?:>|\\+u003e)`+
		`|\bname\\*["']?\s*[:=]\s*\\*["']?[A-Za-z0-9_.-]*(?:`+secretWords+`|`+headerNames+`)\\*["']?[\s,;]+\\*["']?value\\*["']?\s*[:=]\s*`+
		`|(?:^|[\s"'\[(,=])(--?[A-Za-z0-9_.-]*(?:`+secretWords+`)(?:\\*["'])?(?:[ \t]*,\s*|[ \t]+|`+nextItem+`))`+
		`|((?:password|passwd|passphrase|pwd|_pass|requirepass|masterauth|(?:bind|root)pw)[ \t]+)`)
	secretName = lazilyWith(settingWords, `(?i)(?:`+secretWords+`)$`)
	secretFlag = lazilyWith(settingWords, `(?i)^--?[A-Za-z0-9_.-]*(?:`+secretWords+`)$`)
	headerName = lazily(`(?i)^(?:` + headerNames + `)$`)
	// Names of fields within a secret that do not hold it.
	harmlessName = lazily(`(?i)^(?:name|namespace|kind|apiVersion|users?|username|login|email|id|type|path|file|mode|optional|enabled|` +
		`audience|.*(?:Ref|From|Name|Namespace|Path|File|Mode|Seconds|Policy|Type))$`)
	// The name of a field within a secret, with the separator.
	fieldName = lazily(`([A-Za-z0-9_.-]+)(?:\\*["'])?[ \t]*[:=]+[ \t]*`)
	yamlField = lazily(`^\\*["']?[A-Za-z0-9_./-]+\\*["']?[ \t]*:(?:\s|$)`)
	// The part of a name that stands before its last word.
	nameStart = lazily(`\\*["']?[A-Za-z0-9_.-]*$`)
	// A setting with blanks around its value: all words belong to it.
	openForm = lazily(`(?::[ \t]+|[ \t]=[ \t]+)$`)
	nextWord = lazily(`^[ \t]+([^\s"]+)`)
	nextName = lazily(`^[A-Za-z_][A-Za-z0-9_.-]*(?:[:=][^=]|:$)`)
	// A scheme of HTTP before its credentials.
	schemeName = lazily(`(?i)^(?:bearer|basic|token|digest|apikey|negotiate)$`)
	switchForm = lazily(`^(?:true|false|null)[,;\]})]*$`)
	// A block of YAML, whose lines follow, and one within a string of JSON.
	blockForm        = lazily(`^[|>][0-9+-]*[ \t]*(?:#[^\n]*)?\r?\n`)
	escapedBlockForm = lazily(`^[|>][0-9+-]*[ \t]*\\+[rn][^"\n]*`)
	quoteForm        = lazily(`^\\*["']`)
	settingValue     = lazily(`^(?:\[[^\]\n]*\]?|[^\s"]+)`)
	// Words that go on with a sentence: "password is wrong", "failed to list *v1.Secret: unauthorized".
	proseForm = lazily(`(?i)^(?:a|an|the|this|that|it|its|is|was|are|has|had|have|been|be|and|or|of|for|from|in|into|to|by|with|without|on|at|as|if|` +
		`not|no|none|null|nil|true|false|must|should|would|will|may|can|cannot|could|couldn't|can't|do|does|did|doesn't|didn't|only|` +
		`fail(?:ed|ure|ing|s)?|unable|errors?|err|invalid|incorrect|wrong|bad|missing|required|expire[sd]?|expiring|expiration|changed?|` +
		`rotat(?:e[sd]?|ion)|revoked|unauthorized|forbidden|denied|rejected|accepted|found|unknown|unexpected|empty|mismatch|timed|timeout|` +
		`authenticat(?:ed|ion)|verif(?:y|ied|ication)|hash|policy|prompt|reset|protected|manager|store|file|files|path|set|unset|` +
		`provided|given|specified|supported|based|update[sd]?|created?|deleted?|removed?|secrets?|tokens?|context|object|using|` +
		`get|post|put|patch|rpc|http|https|dial|lookup|enabled|disabled|configured)(?:[\s.,;:)\]}]|$)`)
)

// Limits of what is looked at around a secret, so that a log that a Pod has written cannot take long.
const (
	longName   = 200
	longLine   = 4 << 10
	longObject = 64 << 10
	// maxUnclosed is how many objects without an end are looked at, each as far as longObject, and
	// maxDepth how many objects may be within each other. What follows is hidden.
	maxUnclosed = 1000
	maxDepth    = 64
)

// nextItem is what stands between an item of a list and the next one: a journal may have put something
// before each line.
const nextItem = `[ \t]*\r?\n[^\n]{0,100}?-[ \t]+`

// secretWords are the ends of the names of settings that have a secret value.
const secretWords = `passwords?|passwd|passphrase|passcode|pwd|(?:bind|root)pw|requirepass|masterauth|(?:\b|_)(?:pass|pw|psk|dsn|otp|jwt)|secrets?|tokens?|auth|` +
	`(?:api|access|private|secret|certificate|encryption|encrypt|signing|master|account|shared|preshared|storage|session|cookie|license|hmac|aes|ssh)[_-]?key|` +
	`client-key-data|dockerconfigjson|dockercfg|secret[_-]?key[_-]?base|credentials?|connection[_-]?string`

// settingWords are parts of all secretWords and headerNames, in lower case.
var settingWords = []string{"pass", "pw", "psk", "dsn", "otp", "jwt", "secret", "token", "auth", "key", "docker", "credential", "connection",
	"cookie"}

// Text returns a text of any kind without secrets.
func Text(text string) string {
	text = privateKeyForm().ReplaceAllString(text, hidden)
	text = hideCutKey(text)
	text = encodedPEMForm().ReplaceAllString(text, hidden) // what it holds besides cannot be seen
	text = hideInStrings(text)
	text = hideSecretObjects(text)
	text = hideArguments(text)
	return Message(hideSettings(text))
}

// hideSettings hides the values of settings whose names say that they are secret.
func hideSettings(text string) string {
	var clean strings.Builder
	done, unclosed := 0, 0
	for _, at := range settingForm().FindAllStringSubmatchIndex(text, -1) {
		begin := at[1]
		if begin < done {
			continue // a name within a value that is hidden
		}
		before := linePrefix(text, at[0])
		if nested, isWhole := lengthOfNested(text[begin:], before); nested > 0 {
			if !isWhole {
				unclosed++
			}
			if unclosed > maxUnclosed {
				return clean.String() + text[done:begin] + hidden
			}
			clean.WriteString(text[done:begin] + hideNested(text[begin:begin+nested], before))
			done = begin + nested
			continue
		}
		// What is no value is seen by how it begins: a line may have thousands of them.
		first := text[begin:min(len(text), begin+longName)]
		isFlag, isBlank := at[2] >= 0, at[4] >= 0
		isNextFlag := (isFlag || isBlank) && strings.HasPrefix(strings.TrimLeft(first, `\"'`), "-")
		isOperator := isBlank && strings.ContainsAny(first[:min(1, len(first))], "[({<>|&:=")
		isSentence := (isBlank || strings.Trim(before, " -\t") != "") &&
			proseForm().MatchString(settingValue().FindString(first))
		if isNextFlag || isOperator || isSentence {
			continue
		}
		value := text[begin : begin+lengthOfValue(text, begin, before)]
		if value == "" || switchForm().MatchString(value) {
			continue
		}
		clean.WriteString(text[done:begin] + hidden)
		if done = begin + len(value); strings.HasSuffix(value, "\n") {
			clean.WriteByte('\n')
		}
	}
	return clean.String() + text[done:]
}

// linePrefix returns the line before the name that has a word at this place.
func linePrefix(text string, at int) string {
	recent := text[max(0, at-longLine):at]
	line := recent[strings.LastIndexByte(recent, '\n')+1:]
	if name := nameStart().FindString(line[max(0, len(line)-longName):]); len(name) < longName {
		return line[:len(line)-len(name)]
	}
	return line
}

// lengthOfNested returns the length of the fields that are the value of a name, in braces or in the
// lines below it, or 0, and whether their end was found.
func lengthOfNested(text, before string) (length int, isWhole bool) {
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") && strings.HasPrefix(strings.TrimLeft(text[1:], " \t\r\n"), "{") {
		return lengthOfBraces(text)
	}
	rest, isEnd := strings.CutPrefix(strings.TrimLeft(text, " \t\r"), "\n")
	if !isEnd {
		return 0, true
	}
	if lines := lengthOfLines(rest, before); strings.TrimSpace(rest[:lines]) != "" {
		return len(text) - len(rest) + lines, true
	}
	return 0, true
}

// hideNested hides the values of fields, save of those that hold no secret, and what has no name.
func hideNested(text, before string) string {
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		if !fieldName().MatchString(text) {
			return hidden
		}
		return hideFields(text)
	}
	var clean strings.Builder
	for line := range strings.Lines(text) {
		value := strings.TrimLeft(line[min(len(before), len(line)):], " -")
		clean.WriteString(strings.TrimSuffix(line, value))
		switch end := strings.TrimRight(value, "\r\n"); {
		case end == "":
			clean.WriteString(value)
		case yamlField().MatchString(value):
			clean.WriteString(hideFields(value))
		default:
			clean.WriteString(hidden + value[len(end):])
		}
	}
	return clean.String()
}

// scope is an object around a field.
type scope struct {
	end      int
	isSecret bool // its fields are secret, save of those that hold no secret
}

// hideFields hides the values of the fields of an object, as cleanValue does.
func hideFields(text string) string {
	var clean strings.Builder
	done, unclosed := 0, 0
	around := []scope{{len(text), true}}
	for _, at := range fieldName().FindAllStringSubmatchIndex(text, -1) {
		begin := at[1]
		if begin < done || begin == len(text) {
			continue
		}
		for len(around) > 1 && around[len(around)-1].end <= at[0] {
			around = around[:len(around)-1]
		}
		name := text[at[2]:at[3]]
		isSecret := around[len(around)-1].isSecret && !harmlessName().MatchString(name) ||
			secretName().MatchString(name)
		if text[begin] == '{' || text[begin] == '[' {
			length, isWhole := lengthOfBraces(text[begin:])
			if !isWhole {
				unclosed++
			}
			if unclosed > maxUnclosed {
				return clean.String() + text[done:begin] + hidden
			}
			if len(around) > maxDepth {
				clean.WriteString(text[done:begin] + hidden)
				done = begin + length
				continue
			}
			if !isSecret || fieldName().MatchString(text[begin:begin+length]) {
				around = append(around, scope{begin + length, isSecret})
				continue // the names of the fields in it decide
			}
		}
		if !isSecret {
			continue
		}
		if length := lengthOfValue(text, begin, ""); length > 0 {
			clean.WriteString(text[done:begin] + hidden)
			done = begin + length
		}
	}
	return clean.String() + text[done:]
}

// lengthOfValue returns the length of the value that begins in a text: a block of YAML, a string in
// quotes, a list, or words.
func lengthOfValue(text string, begin int, before string) int {
	rest := text[begin:]
	if block := blockForm().FindString(rest); block != "" {
		return len(block) + lengthOfLines(rest[len(block):], before)
	}
	if block := escapedBlockForm().FindString(rest); block != "" {
		return len(block)
	}
	if quote := quoteForm().FindString(rest); quote != "" {
		return lengthOfString(rest, quote)
	}
	length := len(settingValue().FindString(rest))
	isOpen := openForm().MatchString(text[max(0, begin-8):begin]) || schemeName().MatchString(rest[:length])
	for isOpen && length > 0 && !strings.ContainsAny(rest[length-1:length], ",;]})") {
		next := nextWord().FindStringSubmatch(rest[length:])
		if next == nil || nextName().MatchString(next[1]) || strings.ContainsAny(next[1][:1], "-[({") {
			break
		}
		length += len(next[0])
	}
	return length
}

// lengthOfLines returns the length of the lines that are empty or indented more than a name, which
// has this text before it: its indentation, or what a journal puts before each line.
func lengthOfLines(text, before string) (length int) {
	column, isIndented := len(before), strings.Trim(before, " -") == ""
	for line := range strings.Lines(text) {
		isEmpty := strings.TrimSpace(line) == ""
		isDeeper := len(line) > column && (line[column] == ' ' || strings.HasPrefix(line[column:], "- "))
		if isIndented && isDeeper {
			isDeeper = strings.Trim(line[:column], " ") == ""
		}
		if !isEmpty && !isDeeper {
			break
		}
		length += len(line)
	}
	return length
}

// lengthOfBraces returns the length of an object or list, and whether its end was found. Without it
// the object has the rest of the line.
func lengthOfBraces(text string) (length int, isWhole bool) {
	limit, depth := min(len(text), longObject), 0
	for i := 0; i < limit; i++ {
		switch text[i] {
		case '\\', '"', '\'':
			mark := i
			for mark < limit && text[mark] == '\\' {
				mark++
			}
			if mark < limit && (text[mark] == '"' || text[mark] == '\'') {
				i += lengthOfString(text[i:], text[i:mark+1]) - 1
			} else {
				i = mark - 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		if depth == 0 {
			return i + 1, true
		}
	}
	line, _, _ := strings.Cut(text, "\n")
	return len(line), false
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
	text = text[:min(len(text), longObject)]
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
