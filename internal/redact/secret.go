package redact

import "strings"

// Secrets of Kubernetes in logs.
var (
	secretInJSON = lazilyWith([]string{"secret"}, `\\*["']?\bkind\\*["']?\s*:\s*\\*["']Secret(?:List)?\\*["']`)
	secretInYAML = lazilyWith([]string{"kind: secret"}, `(?m)\bkind: Secret(?:List)?[ \t\r]*$`)
	secretOfGo   = lazilyWith([]string{"kind:secret"}, `\bkind:Secret(?:List)?\b`)
	// What holds the data: in JSON and YAML, in Go's format of an untyped object, and of a typed one.
	dataName    = lazily(`\b(?:data|stringData|kubectl\.kubernetes\.io/last-applied-configuration)\\*["']?[ \t]*:[ \t]*`)
	dataOfGo    = lazily(`(\b(?:data|stringData):)map\[[^\]\n]*\]?`)
	dataOfTyped = lazilyWith([]string{"data:"}, `(\bStringData:\s*\(?map\[string\]string\)?|\bData:\s*\(?map\[string\]\[\](?:byte|uint8)\)?)[^{\n]*\{[^}\n]*\}?`)
)

// hideSecretObjects hides the data of Secrets.
func hideSecretObjects(text string) string {
	text = dataOfTyped().ReplaceAllString(text, "${1}"+hidden)
	unclosed := 0
	text = hideData(text, secretInJSON, func(text string, at, from int) (begin, end int) {
		if unclosed > maxUnclosed { // hide all data that follow
			return from, len(text)
		}
		begin, end, isWhole := enclosingObject(text, at)
		if !isWhole {
			unclosed++
		}
		return begin, end
	})
	text = hideData(text, secretInYAML, enclosingLines)
	if !secretOfGo().MatchString(text) {
		return text
	}
	var clean strings.Builder
	for line := range strings.Lines(text) {
		if secretOfGo().MatchString(line) {
			line = dataOfGo().ReplaceAllString(line, "${1}"+hidden)
		}
		clean.WriteString(line)
	}
	return clean.String()
}

// hideData hides the data of each Secret. The object around the place where it is called one is what
// around returns. What is before from is done.
func hideData(text string, kind func() *expression,
	around func(text string, at, from int) (begin, end int)) string {
	var clean strings.Builder
	done := 0
	for _, at := range kind().FindAllStringIndex(text, -1) {
		if at[0] < done {
			continue
		}
		begin, end := around(text, at[0], done)
		begin = max(begin, done)
		clean.WriteString(text[done:begin])
		object := text[begin:end]
		last := 0
		for _, name := range dataName().FindAllStringIndex(object, -1) {
			if name[1] < last {
				continue
			}
			value := object[name[1] : name[1]+lengthOfData(object, name)]
			if strings.Trim(value, `\"'`) == hidden {
				continue
			}
			clean.WriteString(object[last:name[1]] + blankBefore(value) + hidden)
			if last = name[1] + len(value); strings.HasSuffix(value, "\n") {
				clean.WriteByte('\n')
			}
		}
		clean.WriteString(object[last:])
		done = end
	}
	return clean.String() + text[done:]
}

// lengthOfData returns the length of the value of a name. An object that is too large to look at, or cut
// off, has all that follows.
func lengthOfData(object string, name []int) int {
	begin, before := name[1], linePrefix(object, name[0])
	if strings.HasPrefix(object[begin:], "{") || strings.HasPrefix(object[begin:], "[{") {
		if length, isWhole := lengthOfBraces(object[begin:]); isWhole {
			return length
		}
		return len(object) - begin
	}
	if length, _ := lengthOfNested(object[begin:], before); length > 0 {
		return length
	}
	return lengthOfValue(object, begin, before)
}

// blankBefore is what separates a name from a value that stood in the lines below it.
func blankBefore(value string) string {
	if strings.HasPrefix(value, "\n") || strings.HasPrefix(value, "\r") {
		return " "
	}
	return ""
}

// enclosingObject returns where the object in braces around a place begins and ends, and whether both
// were found. Without a beginning it is the line.
func enclosingObject(text string, at int) (begin, end int, isWhole bool) {
	depth := 0
	for begin = at; begin > max(0, at-longObject); begin-- {
		if c := text[begin-1]; c == '}' {
			depth++
		} else if c == '{' {
			if depth--; depth < 0 {
				begin--
				if length, isWhole := lengthOfBraces(text[begin:]); isWhole {
					return begin, begin + length, true
				}
				return begin, len(text), false // it is larger than what is looked at, or cut off
			}
		}
	}
	line, _, _ := strings.Cut(text[at:], "\n")
	return strings.LastIndexByte(text[:at], '\n') + 1, at + len(line), false
}

// enclosingLines returns where the lines of the object around a place begin and end: those that are
// indented as much or more, up to the items before and after it. It does not look before from.
func enclosingLines(text string, at, from int) (begin, end int) {
	before := linePrefix(text, at)
	column, isIndented := len(before), strings.Trim(before, " -") == ""
	isInside := func(line string) bool {
		if isIndented && strings.Trim(line[:min(column, len(line))], " -") != "" {
			return false
		}
		return len(line) > column && !strings.HasPrefix(line[column:], "---")
	}
	isFirst := func(line string) bool { return isIndented && strings.Contains(line[:min(column, len(line))], "-") }
	begin = strings.LastIndexByte(text[:at], '\n') + 1
	for begin > from && !isFirst(text[begin:]) {
		previous := strings.LastIndexByte(text[:begin-1], '\n') + 1
		if !isInside(text[previous : begin-1]) {
			break
		}
		begin = previous
	}
	line, rest, _ := strings.Cut(text[at:], "\n")
	end = min(len(text), at+len(line)+1)
	for line := range strings.Lines(rest) {
		if isFirst(line) || !isInside(strings.TrimRight(line, "\r\n")) {
			break
		}
		end += len(line)
	}
	return begin, end
}
