package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	template "github.com/DataDog/datadog-agent/pkg/template/text"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
	"sigs.k8s.io/yaml/kyaml"

	"kubeadm/internal/flag"
	"kubeadm/internal/problem"
	"kubeadm/internal/state"
)

// outputGroup is the API group and version of JSON and YAML results.
const outputGroup = "output.kubeadm.k8s.io/v1alpha3"

// plain is the default format, human-readable text.
const plain = "text"

func outputMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: outputGroup}
}

// output is the output format of a command.
type output struct {
	format        string // may carry a template after "="
	allowMissing  bool
	managedFields bool // none of our results has any, so this makes no difference
}

func newOutput() output { return output{format: plain, allowMissing: true} }

func (o *output) values() flagTargets {
	return flagTargets{flag.Output: &o.format, flag.AllowMissingTemplateKeys: &o.allowMissing,
		flag.ShowManagedFields: &o.managedFields}
}

// bind defines the flags.
func (o *output) bind(set *pflag.FlagSet) {
	o.values().bind(set)
	describeOutputFormats(set)
}

// describeOutputFormats adds the formats to the help of --output.
func describeOutputFormats(set *pflag.FlagSet) {
	set.Lookup(string(flag.Output)).Usage += ": " + strings.Join(outputFormats(), ", ")
}

// encoder writes objects in one format, one after the other.
type encoder func(w io.Writer, objects []any) error

// encoder finds the format; nil is plain text. Template files are read with r.
func (o *output) encoder(ctx context.Context, r state.Reader) (encoder, error) {
	name, argument, _ := strings.Cut(o.format, "=")
	if name == plain {
		return nil, nil
	}
	if e, ok := encoders()[strings.ToLower(o.format)]; ok {
		return e, nil
	}
	kind, ok := strings.CutSuffix(name, "-file")
	if !ok {
		kind = strings.TrimSuffix(name, "file")
	}
	parse, ok := map[string]func(string) (encoder, error){
		"template":         o.goTemplate,
		"go-template":      o.goTemplate,
		"jsonpath":         func(text string) (encoder, error) { return o.jsonPath(text, false) },
		"jsonpath-as-json": func(text string) (encoder, error) { return o.jsonPath(text, true) },
	}[kind]
	if !ok {
		return nil, problem.New(fmt.Errorf("unknown output format %q", o.format),
			"formats: "+strings.Join(outputFormats(), ", "))
	}
	if argument == "" {
		return nil, problem.New(fmt.Errorf("output format %s needs a template", name),
			"append it after an equals sign: --output "+name+"=...")
	}
	if strings.HasSuffix(name, "file") {
		data, err := r.ReadFile(ctx, argument)
		if err != nil {
			return nil, problem.During("reading the template", err,
				"check the path given with --output "+name+"=")
		}
		argument = string(data)
	}
	e, err := parse(argument)
	if err != nil {
		return nil, problem.During("reading the template", err,
			"fix the template given with --output after the equals sign")
	}
	return e, nil
}

// outputFormats are the names of all formats.
func outputFormats() []string {
	all := append(slices.Collect(maps.Keys(encoders())), plain,
		"go-template=...", "go-template-file=...", "template=...", "templatefile=...",
		"jsonpath=...", "jsonpath-file=...", "jsonpath-as-json=...")
	slices.Sort(all)
	return all
}

func encoders() map[string]encoder {
	return map[string]encoder{"json": writeJSON, "yaml": writeYAML, "kyaml": writeKYAML}
}

func writeJSON(w io.Writer, objects []any) error {
	for _, object := range objects {
		text, err := json.MarshalIndent(object, "", "    ")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

func writeYAML(w io.Writer, objects []any) error {
	for i, object := range objects {
		text, err := yaml.Marshal(object)
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

func writeKYAML(w io.Writer, objects []any) error {
	for _, object := range objects {
		if err := (&kyaml.Encoder{}).FromObject(object, w); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) goTemplate(text string) (encoder, error) {
	t, err := template.New("output").Funcs(template.FuncMap{
		"exists": hasPath,
		"base64decode": func(text string) (string, error) {
			plain, err := base64.StdEncoding.DecodeString(text)
			return string(plain), err
		},
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	if !o.allowMissing {
		t.Option("missingkey=error")
	}
	return eachGeneric(func(w io.Writer, object any) error { return t.Execute(w, object) }), nil
}

// hasPath is the template function "exists", as in kubectl: it reports whether the path of keys
// and indexes exists.
func hasPath(value any, path ...any) bool {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			key, _ := step.(string)
			value = v[key]
		case []any:
			i, ok := step.(int)
			if !ok || i < 0 || i >= len(v) {
				return false
			}
			value = v[i]
		default:
			return false
		}
	}
	return value != nil
}

func (o *output) jsonPath(text string, asJSON bool) (encoder, error) {
	path := jsonpath.New("output").AllowMissingKeys(o.allowMissing)
	path.EnableJSONOutput(asJSON)
	if err := path.Parse(text); err != nil {
		return nil, err
	}
	return eachGeneric(path.Execute), nil
}

// eachGeneric converts each object to a map with the JSON names of its fields, as templates
// expect.
func eachGeneric(show func(io.Writer, any) error) encoder {
	return func(w io.Writer, objects []any) error {
		for _, object := range objects {
			text, err := json.Marshal(object)
			var generic any
			// Whole numbers stay whole: 4194304, not 4.194304e+06.
			if err = errors.Join(err, utiljson.Unmarshal(text, &generic)); err != nil {
				return err
			}
			if err := show(w, generic); err != nil {
				return fmt.Errorf("filling in the template: %w", err)
			}
		}
		return nil
	}
}
