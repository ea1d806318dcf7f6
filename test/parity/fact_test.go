package parity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// facts are what an outcome means: an address such as "file/etc/kubernetes/admin.conf/mode" to a value.
type facts map[string]string

// absent is the value of a fact that one of the two does not have.
const absent = "<absent>"

// difference is a fact about which the two do not agree.
type difference struct{ Fact, Peer, Ours string }

// compareFacts are the facts that are not the same. What one lacks altogether is told once, not with all that is in it.
func compareFacts(peer, ours facts) []difference {
	all := maps.Clone(peer)
	maps.Copy(all, ours)
	var found []difference
	lacking := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := difference{name, factValue(peer, name), factValue(ours, name)}
		if d.Peer == d.Ours || isBelowAny(name, lacking) {
			continue
		}
		if d.Peer == absent || d.Ours == absent {
			lacking[name] = true
		}
		found = append(found, d)
	}
	return found
}

// isBelowAny tells whether an address lies in one of the others.
func isBelowAny(name string, others map[string]bool) bool {
	for i := strings.LastIndex(name, "/"); i > 0; i = strings.LastIndex(name[:i], "/") {
		if others[name[:i]] {
			return true
		}
	}
	return false
}

func factValue(f facts, name string) string {
	if v, ok := f[name]; ok {
		return v
	}
	return absent
}

// factCollector is what facts are taken from values relative to.
type factCollector struct {
	facts facts
	began time.Time
}

func (r factCollector) add(name, value string) { r.facts[name] = value }

// documents reads YAML or JSON, one document after another; each is addressed by its kind and name.
func (r factCollector) documents(at, text string) {
	for _, doc := range regexp.MustCompile(`(?m)^---\s*$`).Split(text, -1) {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		var v any
		if err := yaml.Unmarshal([]byte(doc), &v); err != nil {
			r.add(at+"/unreadable", text)
			return
		}
		r.data(at+"/"+documentKind(v), v)
	}
}

// documentKind names a document by its kind.
func documentKind(v any) string {
	m, _ := v.(map[string]any)
	kind, _ := m["kind"].(string)
	if kind == "" {
		return "document"
	}
	return kind
}

// data takes a value apart, and what is written in its texts too: certificates, keys, YAML.
func (r factCollector) data(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		r.add(at, "{}")
		for key, item := range v {
			r.data(at+"/"+key, item)
		}
	case []any:
		if strings.HasSuffix(at, "/command") && r.arguments(at, v) {
			return
		}
		r.add(at, fmt.Sprintf("%d items", len(v)))
		for i, item := range v {
			r.data(at+"/"+strconv.Itoa(i), item)
		}
	case string:
		r.text(at, v)
	case float64:
		if strings.HasSuffix(at, "/residualTime") {
			v = math.Round(v / 3600)
		}
		r.add(at, toJSON(v))
	default:
		r.add(at, toJSON(v))
	}
}

// arguments addresses those of a command by their names: what order they are in matters only where one is given again.
func (r factCollector) arguments(at string, all []any) bool {
	times := map[string]int{}
	for _, a := range all {
		name, value, _ := strings.Cut(fmt.Sprint(a), "=")
		if times[name]++; times[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, times[name])
		}
		r.add(at+"/"+strings.ReplaceAll(name, "/", ":"), toJSON(withoutRandomValues(value)))
	}
	return len(all) > 0
}

var timestampPattern = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)

// text is a text by itself, or what is inside of it.
func (r factCollector) text(at, s string) {
	if strings.HasPrefix(s, "-----BEGIN ") {
		r.pem(at, s)
		return
	}
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil && strings.HasPrefix(string(decoded), "-----BEGIN ") {
		r.pem(at, string(decoded))
		return
	}
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil && timestampPattern.Match(decoded) {
		s = string(decoded)
	}
	if timestampPattern.MatchString(s) {
		if when, err := time.Parse(time.RFC3339, s); err == nil {
			r.add(at, r.since(when))
			return
		}
	}
	var inner any
	if strings.Contains(s, "\n") && yaml.Unmarshal([]byte(s), &inner) == nil {
		if m, ok := inner.(map[string]any); ok {
			r.data(at+"/inside", m)
			return
		}
	}
	r.add(at, toJSON(withoutRandomValues(s)))
}

// toJSON is a value as JSON, which tells a number from a text.
func toJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// since is a moment as the hours between it and the start of the case, so that two runs say the same.
func (r factCollector) since(when time.Time) string {
	return fmt.Sprintf("start%+dh", int(when.Sub(r.began).Round(time.Hour).Hours()))
}

var randomValues = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`(dryrun)\d+`), "${1}N"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:HASH"},
}

// fixedTokenIDs are the ids of tokens that cases give; all others are made up.
var fixedTokenIDs = []string{"abcdef", "ghijkl"}

var (
	tokenSecret = regexp.MustCompile(`\bbootstrap-token-([a-z0-9]{6})\b`)
	token       = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)
)

// withoutRandomValues is a text without what is made up anew in each run.
func withoutRandomValues(s string) string {
	for _, m := range randomValues {
		s = m.pattern.ReplaceAllString(s, m.as)
	}
	for pattern, as := range map[*regexp.Regexp]string{tokenSecret: "bootstrap-token-MADEUP", token: "MADEUP"} {
		s = pattern.ReplaceAllStringFunc(s, func(found string) string {
			if slices.Contains(fixedTokenIDs, pattern.FindStringSubmatch(found)[1]) {
				return found
			}
			return as
		})
	}
	return s
}
