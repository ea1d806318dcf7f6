package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/config/v1beta3"
	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/flag"
)

// configurationVersion is a version of the configuration API.
type configurationVersion struct {
	name  string // such as v1beta4
	kinds []configurationKind
}

func (v configurationVersion) apiVersion() string { return v1beta4.Group + "/" + v.name }

// configurationKind is a kind of the configuration API: its type, and a document of v1beta4 in
// which the defaults are set. Other versions have the defaults of the fields of the same path.
type configurationKind struct {
	of        reflect.Type
	defaulted interface{ Default() }
}

func (k configurationKind) name() string { return k.of.Name() }

// currentVersion is the version that files should have.
var currentVersion = configurationVersions()[0]

// configurationVersions are the supported versions, the current one first.
func configurationVersions() []configurationVersion {
	return []configurationVersion{
		{v1beta4.Version, []configurationKind{
			{reflect.TypeFor[v1beta4.InitConfiguration](), &v1beta4.InitConfiguration{}},
			{reflect.TypeFor[v1beta4.ClusterConfiguration](), &v1beta4.ClusterConfiguration{}},
			{reflect.TypeFor[v1beta4.JoinConfiguration](), &v1beta4.JoinConfiguration{}},
			{reflect.TypeFor[v1beta4.ResetConfiguration](), &v1beta4.ResetConfiguration{}},
			{reflect.TypeFor[v1beta4.UpgradeConfiguration](), &v1beta4.UpgradeConfiguration{}},
		}},
		{v1beta3.Version, []configurationKind{
			{reflect.TypeFor[v1beta3.InitConfiguration](), &v1beta4.InitConfiguration{}},
			{reflect.TypeFor[v1beta3.ClusterConfiguration](), &v1beta4.ClusterConfiguration{}},
			{reflect.TypeFor[v1beta3.JoinConfiguration](), &v1beta4.JoinConfiguration{}},
		}},
	}
}

// kindPage is the path of a kind's page in docs/reference.
func kindPage(v configurationVersion, kind string) string {
	return fmt.Sprintf("%s/%s_%s.md", configurationDir, v.name, kind)
}

// configurationPages returns the page of each kind.
func configurationPages(repository string) (map[string]string, error) {
	comments := fieldComments{}
	for _, v := range configurationVersions() {
		if err := comments.read(filepath.Join(repository, "internal/config", v.name)); err != nil {
			return nil, err
		}
	}
	refused, err := readRefusedExamples(filepath.Join(repository,
		"internal/config/testdata/verdicts.yaml"))
	if err != nil {
		return nil, err
	}
	pages := map[string]string{}
	for _, v := range configurationVersions() {
		for _, k := range v.kinds {
			fields, err := listFields(k, comments)
			if err != nil {
				return nil, err
			}
			pages[kindPage(v, k.name())] = kindPageText(v, k, fields, comments) +
				rulesText(v, k, fields, refused)
		}
	}
	return pages, nil
}

func kindPageText(v configurationVersion, k configurationKind, fields []documentedField,
	comments fieldComments) string {
	var b strings.Builder
	fmt.Fprintf(&b, generatedNote, "internal/config/"+v.name)
	fmt.Fprintf(&b, "# %s, %s\n\n%s\n\n", k.name(), v.name, comments.ofType(k.of))
	if v.name != currentVersion.name {
		fmt.Fprintf(&b, "This version is read, with a warning. \"kubeadm config migrate\" "+
			"converts a file to [%s](%s_%s.md).\n\n", currentVersion.name, currentVersion.name,
			k.name())
	}
	fmt.Fprintf(&b, "    apiVersion: %s\n    kind: %s\n\n", v.apiVersion(), k.name())
	b.WriteString("| field | type | default | | flag |\n|---|---|---|---|---|\n")
	flags := flagsOfFields(k.name())
	for _, f := range fields {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.path, f.kind, asCode(f.value),
			inTable(f.comment), flags[f.path])
	}
	return b.String()
}

// flagsOfFields maps the fields of a kind to the flags that stand for them.
func flagsOfFields(kind string) map[string]string {
	flags := map[string]string{}
	for _, c := range []flag.Command{flag.Init, flag.Join, flag.Reset, flag.UpgradeApply,
		flag.UpgradeDiff, flag.UpgradeNode, flag.UpgradePlan} {
		for _, f := range flag.Fields(c) {
			if path := withoutIndexes(f.Path); f.Kind == kind && flags[path] == "" {
				flags[path] = fmt.Sprintf("[`--%s`](../%s/kubeadm_%s.md)", f.Flag, commandsDir,
					strings.ReplaceAll(string(c), " ", "_"))
			}
		}
	}
	return flags
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// withoutIndexes writes a path such as taints[0].key as taints[].key.
func withoutIndexes(path string) string { return listIndex.ReplaceAllString(path, "[]") }

// documentedField is a field as the reference shows it.
type documentedField struct {
	path, kind, value, comment string // value is the default
}

// listFields lists the fields of a kind, in the order of the type.
func listFields(k configurationKind, comments fieldComments) ([]documentedField, error) {
	allocate(reflect.ValueOf(k.defaulted).Elem())
	k.defaulted.Default()
	data, err := json.Marshal(k.defaulted)
	if err != nil {
		return nil, err
	}
	var defaults map[string]any
	if err := json.Unmarshal(data, &defaults); err != nil {
		return nil, err
	}
	var all []documentedField
	addFields(&all, "", k.of, comments)
	for i, f := range all {
		all[i].value = valueAt(defaults, f.path)
	}
	return all, nil
}

// allocate sets pointers to structs of kubeadm, so that their fields get defaults.
func allocate(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		switch {
		case f.Kind() == reflect.Pointer && isOwn(f.Type().Elem()):
			f.Set(reflect.New(f.Type().Elem()))
			allocate(f.Elem())
		case isOwn(f.Type()):
			allocate(f)
		}
	}
}

func isOwn(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && strings.HasPrefix(t.PkgPath(), "kubeadm/")
}

func addFields(all *[]documentedField, at string, t reflect.Type, comments fieldComments) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue
		}
		if name == "" {
			addFields(all, at, f.Type, comments)
			continue
		}
		path, kind := at+name, f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		*all = append(*all, documentedField{path: path, kind: typeName(kind),
			comment: comments.ofField(t, f, name)})
		if kind.Kind() == reflect.Slice {
			path, kind = path+"[]", kind.Elem()
		}
		if isOwn(kind) {
			addFields(all, path+".", kind, comments)
		}
	}
}

// typeName is a type in the words of the reference.
func typeName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[metav1.Duration]():
		return "duration"
	case t == reflect.TypeFor[metav1.Time]():
		return "time"
	case isOwn(t):
		return "object"
	case t.Kind() == reflect.Struct:
		return t.Name() + " of the Kubernetes API"
	case t.Kind() == reflect.Slice:
		return "list of " + typeName(t.Elem())
	case t.Kind() == reflect.Map:
		return "map of string to " + typeName(t.Elem())
	}
	return t.Kind().String()
}

// valueAt is a value of a JSON object by its path, empty for a zero value. Of a list it reads the
// first element.
func valueAt(object map[string]any, path string) string {
	name, rest, more := strings.Cut(path, ".")
	name, isElement := strings.CutSuffix(name, "[]")
	value := object[name]
	if list, ok := value.([]any); ok && isElement {
		if len(list) == 0 {
			return ""
		}
		value = list[0]
	}
	if more {
		inner, _ := value.(map[string]any)
		return valueAt(inner, rest)
	}
	switch v := value.(type) {
	case nil, map[string]any:
		return ""
	case []any:
		var texts []string
		for _, element := range v {
			if text, ok := element.(string); ok {
				texts = append(texts, text)
			}
		}
		return strings.Join(texts, ", ")
	}
	if reflect.ValueOf(value).IsZero() {
		return ""
	}
	return fmt.Sprint(value)
}
