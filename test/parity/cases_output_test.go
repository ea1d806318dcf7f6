package parity

import "strings"

// outputCases print one result in every format.
func outputCases() []testCase {
	formats := map[string]outputReader{
		"text": asLines, "json": asObjects, "yaml": asObjects, "kyaml": asObjects,
		"jsonpath={.images}": asLines, "jsonpath-as-json={.images[0]}": asDocuments,
		"jsonpath={range .images[*]}{@}{\"\\n\"}{end}": asLines,
		"go-template={{.kind}}":                        asLines,
		"go-template={{range .images}}{{.}};{{end}}":   asLines, "template={{.missing}}": asLines,
		"go-template-file=/template": asLines, "jsonpath-file=/path": asLines,
		"templatefile=/template": asLines,
		"go-template={{.images":  asLines, "jsonpath={.nothing}": asLines, "xml": asLines,
		"go-template": asLines, "": asLines,
	}
	m := machine{files: map[string]string{"/template": "{{.apiVersion}}", "/path": "{.images[1]}"}}
	var list []testCase
	for format, how := range formats {
		args := []string{"config", "images", "list", "--kubernetes-version=v1.37.1", "-o", format}
		list = append(list, testCase{"output " + strings.ReplaceAll(format, "/", ":"), m,
			[]step{{args, how}, {append(args, "--allow-missing-template-keys=false"), how}}})
	}
	list = append(list, testCase{name: "images pulled", machine: machine{runtime: true},
		steps: []step{ignoreOutput("config images pull --kubernetes-version=v1.37.1")}})
	list = append(list, testCase{name: "images not pulled",
		steps: []step{ignoreOutput("config images pull --kubernetes-version=v1.37.1")}})
	for _, version := range strings.Fields(
		"v1.37.0 1.36.3 v1.35.9 v1.38.0 v1.37.2 v1.40.1 stable stable-1 latest-1 stable-1.36 release/v1.37.1 ci/v1.37.0-alpha.1.20+0123456789abcd nonsense v1.37 v1.37.1+build.5 v1.37.0-rc.1") {
		name := strings.ReplaceAll("images of version "+version, "/", ":")
		list = append(list, testCase{name: name,
			steps: []step{compareOutput("config images list --kubernetes-version="+version,
				asLines)}})
	}
	return list
}
