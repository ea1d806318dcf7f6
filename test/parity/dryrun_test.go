package parity

import (
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// asDryRun reads what a dry run would write, to the cluster and to this machine. Upstream prints
// verb and resource on one line, the name on another and the object below a third; ours prints
// kind and name on one line, and the object indented.
func asDryRun(r factCollector, at string, s commandResult) {
	var verb, resource, name string
	for _, p := range splitParagraphs(s.Out) {
		switch m := announcement.FindStringSubmatch(p.head); {
		case m == nil:
		case m[1] != "":
			verb, resource, name = m[1], m[2], ""
		case m[3] != "":
			name = m[4] + "/" + m[3]
			if verb == "DELETE" {
				r.add(at+"/object/delete "+resource+" "+name, "deleted")
			}
		case m[5] != "":
			r.change(at, verb, resource+" "+name, p.body)
		case m[6] != "":
			r.object(at, p.body)
		case m[7] != "":
			r.add(at+"/object/Node "+m[7], "patched")
		case m[8] != "":
			r.announced(at, m[8], p.body)
		}
	}
}

// announcement matches the line before an object: upstream's action, name or object; ours of an
// object, a Node or a file.
var announcement = regexp.MustCompile(
	`^\[dryrun\] Would perform action (\S+) on resource "([^"]+)"` +
		`|^\[dryrun\] Resource name "([^"]*)", namespace "([^"]*)"` +
		`|^\[dryrun\] (Attached object):` +
		`|^\[[a-z-]+\] would apply (\S+)` +
		`|^\[[a-z-]+\] (?:would label (?:and taint )?Node|Would mark node) ([^:\s]+)` +
		`|^\[[a-z-]+\] [Ww]ould write file "([^"]+)"`)

// paragraph is a line that begins with a bracket, and the lines that follow it.
type paragraph struct{ head, body string }

func splitParagraphs(text string) []paragraph {
	var all []paragraph
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "["):
			all = append(all, paragraph{head: line})
		case len(all) > 0:
			all[len(all)-1].body += strings.TrimPrefix(line, "\t")
		}
	}
	return all
}

// change adds the facts of an action that upstream prints; reads are not changes.
func (r factCollector) change(at, verb, what, body string) {
	body, _, _ = strings.Cut(body, "\n\n")
	switch {
	case verb == "PATCH" && strings.HasPrefix(what, "nodes "):
		r.add(at+"/object/Node "+what[len("nodes /"):], "patched")
	case verb == "CREATE" || verb == "UPDATE":
		r.object(at, body)
	case verb == "PATCH":
		r.add(at+"/object/patch "+what, body)
	}
}

func (r factCollector) object(at, text string) {
	text, _, _ = strings.Cut(text, "\n\n")
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil || v == nil {
		r.add(at+"/object/unreadable", text)
		return
	}
	delete(v, "status")
	meta, _ := v["metadata"].(map[string]any)
	delete(meta, "resourceVersion")
	name, _ := meta["name"].(string)
	if space, ok := meta["namespace"].(string); ok {
		name = space + "/" + name
	}
	r.data(at+"/object/"+documentKind(v)+" "+withoutRandomValues(name), removeEmpty(v))
}

// announced adds the facts of a file that would be written; its content may not be shown.
func (r factCollector) announced(at, name, content string) {
	at += "/written" + withoutRandomValues(name)
	r.add(at, "announced")
	switch {
	case strings.TrimSpace(content) == "":
	case strings.HasSuffix(name, ".yaml"):
		r.documents(at, content)
	default:
		r.add(at+"/text", strings.TrimSpace(content))
	}
}

// removeEmpty removes null and empty maps, which mean nothing in an API object.
func removeEmpty(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for key, item := range m {
		item = removeEmpty(item)
		if inner, isMap := item.(map[string]any); item == nil || isMap && len(inner) == 0 {
			delete(m, key)
			continue
		}
		m[key] = item
	}
	return m
}
