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

// facts describe an outcome: values by addresses such as "file/etc/kubernetes/admin.conf/mode".
type facts map[string]string

// absent is the value of a fact that one of the programs does not have.
const absent = "<absent>"

// difference is a fact that differs between the programs.
type difference struct{ Fact, Peer, Ours string }

// compareFacts returns the differences. A fact that one program lacks is listed once, without the
// facts below it.
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

// isBelowAny reports whether an address is below one of the others.
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

// factCollector collects facts; times are relative to began.
type factCollector struct {
	facts facts
	began time.Time
}

func (r factCollector) add(name, value string) { r.facts[name] = value }

// documents reads YAML or JSON, one document after another; each is addressed by its kind.
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

// documentKind returns the kind of a document.
func documentKind(v any) string {
	m, _ := v.(map[string]any)
	kind, _ := m["kind"].(string)
	if kind == "" {
		return "document"
	}
	return kind
}

// data adds the facts of a value and of what its texts contain: certificates, keys, YAML.
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

// arguments addresses the arguments of a command by name: their order matters only if a name is
// repeated.
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

// text adds a text, or the facts of its content.
func (r factCollector) text(at, s string) {
	if strings.HasPrefix(s, "-----BEGIN ") {
		r.pem(at, s)
		return
	}
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil &&
		strings.HasPrefix(string(decoded), "-----BEGIN ") {
		r.pem(at, string(decoded))
		return
	}
	if decoded, err := base64.StdEncoding.DecodeString(s); err == nil &&
		timestampPattern.Match(decoded) {
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

// toJSON returns a value as JSON, where a number differs from a text.
func toJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// since returns a time as hours since the start of the case, so that two runs compare equal.
func (r factCollector) since(when time.Time) string {
	return fmt.Sprintf("start%+dh", int(when.Sub(r.began).Round(time.Hour).Hours()))
}

var randomValues = []struct {
	pattern *regexp.Regexp
	as      string
}{
	{regexp.MustCompile(`(dryrun)\d+`), "${1}N"},
	{regexp.MustCompile(`sha256:[0-9a-f]{64}`), "sha256:HASH"},
	{regexp.MustCompile(`(kubeadm-[a-z-]+-)\d{4}(-\d\d){5}`), "${1}TIME"},
}

// fixedTokenIDs are the IDs of tokens that cases set; all others are random.
var fixedTokenIDs = []string{"abcdef", "ghijkl"}

var (
	tokenSecret = regexp.MustCompile(`\bbootstrap-token-([a-z0-9]{6})\b`)
	token       = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)
)

// withoutRandomValues returns a text without values that are random in each run.
func withoutRandomValues(s string) string {
	for _, m := range randomValues {
		s = m.pattern.ReplaceAllString(s, m.as)
	}
	for pattern, as := range map[*regexp.Regexp]string{tokenSecret: "bootstrap-token-MADEUP",
		token: "MADEUP"} {
		s = pattern.ReplaceAllStringFunc(s, func(found string) string {
			if slices.Contains(fixedTokenIDs, pattern.FindStringSubmatch(found)[1]) {
				return found
			}
			return as
		})
	}
	return s
}
