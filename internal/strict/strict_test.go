package strict

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fruit has a field of every type that API types use.
type fruit struct {
	metav1.TypeMeta `json:",inline"`
	Name            string             `json:"name"`
	Count           int32              `json:"count,omitempty"`
	Ripe            *bool              `json:"ripe,omitempty"`
	Age             *metav1.Duration   `json:"age,omitempty"`
	Picked          *metav1.Time       `json:"picked,omitempty"`
	Weight          *resource.Quantity `json:"weight,omitempty"`
	Seeds           []seed             `json:"seeds,omitempty"`
	Tags            map[string]bool    `json:"tags,omitempty"`
	Leaves          []string           `json:"leaves,omitempty"`
	Tree            *tree              `json:"tree,omitempty"`
	hidden          int
}

type seed struct {
	Colour string `json:"colour"`
}

type tree struct {
	Height float64 `json:"height"`
	Place  string  `json:"place"`
}

type crate struct {
	Lid string `json:"lid"`
}

type basket struct {
	Handle string `json:"handle"`
	Rings  int    `json:"rings"`
}

const head = "apiVersion: example.org/v1\nkind: Fruit\n"

func TestDecodeMismatches(t *testing.T) {
	for name, c := range map[string]struct {
		text           string
		unknown, wrong []string
	}{
		"all is well":          {text: "name: apple\ncount: 3\nripe: true\nage: 2h\npicked: 2030-01-02T15:04:05Z\nweight: 100m\nseeds: [{colour: black}]\ntags: {a: true}\ntree: {height: 3}\n"},
		"null fits everywhere": {text: "name: null\ncount: null\nage: null\nseeds: null\ntags: null\ntree: null\n"},
		"a document's name":    {text: "metadata: {name: config}\nname: apple\n"},
		"metadata inside": {text: "tree: {metadata: 1}\n",
			unknown: []string{"unknown field tree.metadata: the fields are height, place"}},
		"a slip": {text: "nmae: apple\n",
			unknown: []string{"unknown field nmae: did you mean name?"}},
		"another case": {text: "Name: apple\n",
			unknown: []string{"unknown field Name: did you mean name?"}},
		"only a beginning": {text: "tree: {heig: 3}\n",
			unknown: []string{"unknown field tree.heig: did you mean height?"}},
		"the wrong depth": {text: "height: 3\n",
			unknown: []string{"unknown field height: did you mean tree.height?"}},
		"the wrong kind": {text: "lid: long\n",
			unknown: []string{"unknown field lid: did you mean lid of crate?"}},
		"no idea": {text: "tree: {xyzzy: 1}\n",
			unknown: []string{"unknown field tree.xyzzy: the fields are height, place"}},
		"not exported": {text: "hidden: 1\n",
			unknown: []string{"unknown field hidden: the fields are age, count, leaves, name, picked, ripe, seeds, tags, tree, weight"}},
		"in a list": {text: "seeds: [{colour: red}, {color: blue}]\n",
			unknown: []string{"unknown field seeds[1].color: did you mean colour?"}},
		"given twice": {text: "name: a\nname: b\n",
			unknown: []string{`line 4: duplicate field "name"`}},
		"listed once": {text: "tree: {xyzzy: 1, zzyzx: 2}\n",
			unknown: []string{"unknown field tree.xyzzy: the fields are height, place",
				"unknown field tree.zzyzx"}},
		"deeper in a list": {text: "tag: 1\ncolour: red\n",
			unknown: []string{"unknown field colour: did you mean seeds[].colour?",
				"unknown field tag: did you mean tags?"}},
		"moved": {text: "tree: {age: 3}\n",
			unknown: []string{"unknown field tree.age: it moved to age"}},
		"moved in a list": {text: "seeds: [{age: 3}, {age: 4}]\n",
			unknown: []string{"unknown field seeds[0].age: it was removed",
				"unknown field seeds[1].age: it was removed"}},
		"of a newer version": {text: "tree: {rings: 3}\n",
			unknown: []string{"unknown field tree.rings: example.org/v2 has it as rings"}},
		"an escape in a name": {text: "\"\\e[31m\": 3\n",
			unknown: []string{`unknown field "\x1b[31m": the fields are age, count, leaves, name, picked, ripe, seeds, tags, tree, weight`}},
		"truth for text": {text: "name: no\n",
			wrong: []string{"name: must be a string, not true or false: put it in quotes, since YAML parses yes, no, on and off as true or false"}},
		"quoted number": {text: "count: '3'\n",
			wrong: []string{"count: must be an integer of at most 2147483647, not a string: remove the quotes"}},
		"quoted truth": {text: "ripe: 'true'\n",
			wrong: []string{"ripe: must be true or false, not a string: remove the quotes"}},
		"a day as duration": {text: "age: 1d\n",
			wrong: []string{`age: must be a duration such as 1h30m0s, not "1d": its units are h, m, s and ms`}},
		"an escape in a value": {text: "age: \"\\e[31m\"\n",
			wrong: []string{`age: must be a duration such as 1h30m0s, not "\x1b[31m": its units are h, m, s and ms`}},
		"another shape": {text: "tags: [a]\nseeds: {a: b}\n", wrong: []string{
			"seeds: must be a list of mappings with colour, not a mapping: v0 had a mapping",
			"tags: must be a mapping, not a list"}},
		"text for a list of it": {text: "leaves: green\n",
			wrong: []string{"leaves: must be a list of strings, not a string"}},
		"number for text": {text: "name: 1.37\n",
			wrong: []string{"name: must be a string, not a number: put it in quotes"}},
		"text for number": {text: "count: many\n",
			wrong: []string{"count: must be an integer of at most 2147483647, not a string"}},
		"too large": {text: "count: 99999999999\n",
			wrong: []string{"count: must be an integer of at most 2147483647"}},
		"text for bool": {text: "ripe: \"yes\"\n",
			wrong: []string{"ripe: must be true or false, not a string"}},
		"number for duration": {text: "age: 5\n",
			wrong: []string{"age: must be a duration such as 1h30m0s, not a number: its units are h, m, s and ms"}},
		"no time": {text: "picked: today\n",
			wrong: []string{"picked: must be a time such as 2030-01-02T15:04:05Z, not \"today\""}},
		"no quantity": {text: "weight: heavy\n",
			wrong: []string{"weight: must be a quantity such as 100Mi, not \"heavy\""}},
		"mapping for list": {text: "seeds: {colour: red}\n",
			wrong: []string{"seeds: must be a list of mappings with colour, not a mapping: v0 had a mapping"}},
		"list for mapping": {text: "tree: [1]\n",
			wrong: []string{"tree: must be a mapping, not a list"}},
		"in a map": {text: "tags: {a: 1}\n",
			wrong: []string{"tags[a]: must be true or false, not a number"}},
		"list for map": {text: "tags: [a]\n",
			wrong: []string{"tags: must be a mapping, not a list"}},
		"mapping for text": {text: "name: {}\n",
			wrong: []string{"name: must be a string, not a mapping"}},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Split([]byte(head + c.text))
			if err != nil {
				t.Fatal(err)
			}
			got := documents[0].Decode(&fruit{}, Hints{
				Others: []any{&crate{}}, Newer: &basket{}, NewerVersion: "example.org/v2",
				Moved: map[string]string{"tree.age": "it moved to age",
					"seeds[].age": "it was removed"},
				Shapes: map[string]string{"seeds": "v0 had a mapping"},
			})
			var unknown []string
			for _, i := range got.Ignored {
				unknown = append(unknown, i.Fault())
			}
			if diff := cmp.Diff(c.unknown, unknown); diff != "" {
				t.Errorf("unknown (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.wrong, got.Wrong); diff != "" {
				t.Errorf("wrong (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode(t *testing.T) {
	documents, err := Split([]byte(head + "name: apple\nunknown: 1\ntree: {height: 2.5}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got fruit
	documents[0].Decode(&got, Hints{})
	if got.Kind != "Fruit" || got.Name != "apple" || got.Tree == nil || got.Tree.Height != 2.5 {
		t.Errorf("got %+v", got)
	}
	if got.hidden != 0 {
		t.Error("a field that is not exported was set")
	}
}

func TestSplit(t *testing.T) {
	a, b := "apiVersion: x/v1\nkind: A\n", "apiVersion: x/v1\nkind: B\n"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"nothing":        {"", nil},
		"only a comment": {"# nothing\n---\n", nil},
		"one":            {a, []string{"1 A"}},
		"two":            {a + "---\n" + b, []string{"1 A", "2 B"}},
		"empty ones between": {"---\n---\n" + a + "---\n# no\n---\n" + b + "---",
			[]string{"1 A", "2 B"}},
		"words after the dashes": {"--- # first\n" + a + "--- {apiVersion: x/v1, kind: B}\n",
			[]string{"1 A", "2 B"}},
		"ended by dots": {a + "...\n" + b, []string{"1 A", "2 B"}},
		"carriage returns": {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
			[]string{"1 A", "2 B"}},
		"JSON":              {`{"apiVersion": "x/v1", "kind": "A"}`, []string{"1 A"}},
		"dashes in a value": {a + "text: |\n  ---\n  more\n", []string{"1 A"}},
	} {
		t.Run(name, func(t *testing.T) {
			documents, err := Split([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, d := range documents {
				if d.Group() != "x" || d.Version() != "v1" {
					t.Errorf("%s is of %s in %s", d, d.Version(), d.Group())
				}
				got = append(got, strings.NewReplacer("document ", "", "(", "", ")",
					"").Replace(d.String()))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitErrors(t *testing.T) {
	good := "apiVersion: x/v1\nkind: A\n"
	for name, c := range map[string]struct{ text, want string }{
		"form": {good + "---\n" + good + "b: [1\n",
			"document 2: line 6: did not find expected ',' or ']': close brackets"},
		"tab": {good + "b:\n\t- 1\n",
			"document 1: line 4: found character that cannot start any token: indent with spaces, not tabs, and put text that begins with a special character in quotes"},
		"list": {"- a\n",
			"document 1: it is a list, not a mapping with apiVersion and kind"},
		"text": {"hello\n",
			"document 1: it is a string, not a mapping with apiVersion and kind"},
		"no version": {"kind: A\n",
			`document 1: apiVersion is missing: it must be group/version, such as kubeadm.k8s.io/v1beta4`},
		"core group": {"apiVersion: v1\nkind: Pod\n",
			`document 1: apiVersion is "v1": it must be group/version, such as kubeadm.k8s.io/v1beta4`},
		"number": {"apiVersion: 1\nkind: Pod\n",
			`document 1: apiVersion is a number: it must be group/version, such as kubeadm.k8s.io/v1beta4`},
		"empty group": {"apiVersion: /v1\nkind: Pod\n",
			`document 1: apiVersion is "/v1": it must be group/version, such as kubeadm.k8s.io/v1beta4`},
		"no kind": {"apiVersion: x/v1\n",
			"document 1: kind is missing: it must be the name of a kind, such as ClusterConfiguration"},
		"control letter": {good + "b: \x01\n",
			"document 1: control characters are not allowed: the file must be UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Split([]byte(c.text))
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestNearest(t *testing.T) {
	fields := []string{"controlPlaneEndpoint", "dns", "etcd", "networking", "proxy"}
	for name, want := range map[string]string{
		"dns": "dns", "DNS": "dns", "network": "networking", "etc": "etcd",
		"controlPlaneEndPoint": "controlPlaneEndpoint",
		"contolplaneendpont":   "controlPlaneEndpoint", "prxoy": "proxy", "pro": "", "zzz": "",
		"": "",
	} {
		if got := Nearest(name, fields); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestIgnoredWarning(t *testing.T) {
	documents, err := Split([]byte(head + "nmae: apple\ncount: 1\ncount: 2\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got fruit
	var warnings []string
	for _, i := range documents[0].Decode(&got, Hints{}).Ignored {
		warnings = append(warnings, i.Warning())
	}
	want := []string{`line 5: duplicate field "count"; the last value is used`,
		"unknown field nmae is ignored: did you mean name?"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Count != 2 {
		t.Errorf("count is %d", got.Count)
	}
}

func TestDuplicateJSONMappingsAreMerged(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want tree
	}{
		"YAML": {head + "tree: {height: 2}\ntree: {place: here}\n", tree{Place: "here"}},
		"JSON": {`{"apiVersion": "example.org/v1", "kind": "Fruit", "tree": {"height": 2}, "tree": {"place": "here"}}`, tree{Height: 2, Place: "here"}},
	} {
		documents, err := Split([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		var got fruit
		if m := documents[0].Decode(&got, Hints{}); len(m.Ignored) != 1 || got.Tree == nil ||
			*got.Tree != c.want {
			t.Errorf("%s: %+v, %+v", name, m, got.Tree)
		}
	}
}

func TestDuplicateNonStringKeys(t *testing.T) {
	documents, err := Split([]byte(head + "tags:\n  1: a\n  1: b\n  true: c\n  true: d\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range documents[0].Decode(&fruit{}, Hints{}).Ignored {
		got = append(got, i.Fault())
	}
	if diff := cmp.Diff([]string{`line 5: duplicate field "1"`, `line 7: duplicate field "true"`},
		got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOctalNumbersInSuccessiveLines(t *testing.T) {
	for _, text := range []string{head + "age: 010s\nweight: 010\ncount: 06443\n",
		"{apiVersion: example.org/v1,kind: Fruit,weight: 010,count: 06443}"} {
		documents, err := Split([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := documents[0].Decode(&fruit{}, Hints{}).Warnings; len(got) != 1 ||
			!strings.HasPrefix(got[0], "count: 06443") {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestOctalNumbers(t *testing.T) {
	const said = "count: 06443 is parsed as the octal number 3363: write 6443 or 3363"
	for text, want := range map[string]string{
		"count: 06443\n": said, "count: 06443 # the port\n": said, "{count: 06443}\n": said,
		"\"count\": 06443": said,
		"count: 6443\n":    "", "count: 0\n": "", "count: 07\n": "", "count: 0x1F\n": "",
		"name: '06443'\n": "", "name: |\n  count: 06443\n": "",
		"count: 6443 # not count: 06443\n": "", "count: '06443'\n": "",
	} {
		flow, isFlow := strings.CutPrefix(text, "{")
		text = head + text
		if isFlow {
			text = "{apiVersion: example.org/v1, kind: Fruit, " + flow
		}
		documents, err := Split([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(documents[0].Decode(&fruit{}, Hints{}).Warnings, "\n"); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
