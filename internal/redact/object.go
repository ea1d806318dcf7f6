package redact

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// documentEnd is the line between two documents of YAML.
var documentEnd = lazily(`(?m)^---[ \t]*\r?\n`)

// errorLine is the line in a parse error. The rest of it may quote the text.
var errorLine = lazily(`\bline ([0-9]+)`)

// Document is Text for the contents of a file of YAML or JSON. It also finds secrets by their place:
// the values of fields and of environment variables whose names say so, what Secrets hold, the
// arguments after flags, and annotations with a copy of the whole object. The error of a file that
// cannot be parsed has the line and nothing of its text.
func Document(data []byte) ([]byte, error) {
	documents, err := parseDocuments(string(data))
	if err != nil {
		return nil, err
	}
	var all []string
	for _, value := range documents {
		text, err := yaml.Marshal(cleanValue(field{}, value))
		if err != nil {
			return nil, err
		}
		all = append(all, Text(string(text)))
	}
	return []byte(strings.Join(all, "---\n")), nil
}

// Object is the YAML of a value without secrets.
func Object(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var fields any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	data, err := yaml.Marshal(cleanValue(field{}, fields))
	return []byte(Text(string(data))), err
}

// parseDocuments parses documents of YAML or JSON. Those that have only comments are left out.
func parseDocuments(text string) ([]any, error) {
	var all []any
	var value any
	if json.Unmarshal([]byte(text), &value) == nil {
		return []any{value}, nil
	}
	first := 0 // lines before the document
	for _, document := range documentEnd().Split(text, -1) {
		var value any
		if err := yaml.Unmarshal([]byte(document), &value); err != nil {
			found := errorLine().FindStringSubmatch(err.Error())
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

// field is where a value stands.
type field struct {
	name     string
	isSecret bool // its name, or that of a field around it, says that it is secret
	inList   bool // it is an item of a SecretList
}

// of returns the field of this name within f.
func (f field) of(name string) field {
	isSecret := f.isSecret && !harmlessName().MatchString(name) || secretName().MatchString(name)
	return field{name: name, isSecret: isSecret}
}

// cleanValue returns the value of a field without secrets.
func cleanValue(f field, value any) any {
	switch v := value.(type) {
	case map[string]any:
		return cleanMap(f, v)
	case []any:
		return cleanList(f, v)
	case string:
		if f.isSecret || headerName().MatchString(f.name) {
			return hidden
		}
		return cleanText(v)
	case float64:
		if f.isSecret {
			return hidden
		}
	}
	return value
}

func cleanMap(f field, v map[string]any) any {
	for _, key := range []string{"name", "key"} { // an environment variable, a header, or an argument
		n, isText := v[key].(string)
		if isText && v["value"] != nil && (secretName().MatchString(n) || headerName().MatchString(n)) {
			v["value"] = hidden
		}
	}
	delete(v, "managedFields")
	for key, inner := range v {
		isOfSecret := (v["kind"] == "Secret" || f.inList) && (key == "data" || key == "stringData")
		if isOfSecret || strings.HasSuffix(key, "last-applied-configuration") {
			v[key] = hidden
			continue
		}
		child := f.of(key)
		child.inList = v["kind"] == "SecretList" && key == "items"
		v[key] = cleanValue(child, inner)
	}
	return v
}

func cleanList(f field, v []any) any {
	before := ""
	for i := range v {
		text, isText := v[i].(string)
		isArgument := isText && (secretFlag().MatchString(before) && !strings.HasPrefix(text, "--") ||
			userFlag().MatchString(before) && strings.Contains(text, ":") && !numericUser().MatchString(text))
		if isArgument {
			v[i] = hidden
		} else {
			v[i] = cleanValue(f, v[i])
		}
		before = text
	}
	return v
}

// cleanText returns a string without secrets, which may be a document in a document, as in a ConfigMap.
// A document of JSON stays one.
func cleanText(text string) string {
	if !strings.Contains(text, "\n") && !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return Text(text)
	}
	documents, err := parseDocuments(text)
	if err != nil {
		return Text(text)
	}
	var all []string
	for _, value := range documents {
		var clean []byte
		switch value.(type) {
		case map[string]any, []any:
		default:
			return Text(text)
		}
		if value = cleanValue(field{}, value); json.Valid([]byte(text)) {
			clean, err = json.MarshalIndent(value, "", "  ")
		} else {
			clean, err = yaml.Marshal(value)
		}
		if err != nil {
			return Text(text)
		}
		all = append(all, string(clean))
	}
	return Text(strings.Join(all, "---\n"))
}
