package parity

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// documents are configuration documents by their kind.
type documents map[string]map[string]any

// factor is a field or flag with several values, its levels.
type factor struct {
	name   string
	levels []documents
}

// readFactors reads a file of testdata, sorted by name.
func readFactors(name string) []factor {
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		panic(err)
	}
	var in map[string][]documents
	if err := yaml.UnmarshalStrict(data, &in); err != nil {
		panic(fmt.Errorf("%s: %w", name, err))
	}
	var all []factor
	for _, name := range slices.Sorted(maps.Keys(in)) {
		all = append(all, factor{name, in[name]})
	}
	return all
}

// readCombinations returns the pairwise combinations of a file's factors.
func readCombinations(file string) []documents {
	all := readFactors(file)
	var sizes []int
	for _, f := range all {
		sizes = append(sizes, len(f.levels))
	}
	var list []documents
	for _, row := range pairwise(sizes) {
		list = append(list, mergeLevels(all, row))
	}
	return list
}

// flags returns the flags that the document of that kind names, as arguments.
func (d documents) flags() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d["flags"])) {
		fmt.Fprintf(&b, " --%s=%v", name, d["flags"][name])
	}
	return b.String()
}

// only keeps the flags whose names are in the list.
func (d documents) only(names string) documents {
	kept := map[string]any{}
	for _, name := range strings.Fields(names) {
		if v, ok := d["flags"][name]; ok {
			kept[name] = v
		}
	}
	return documents{"flags": kept}
}

// choice is a level of a factor, as indexes.
type choice struct{ factor, level int }

// pairwise returns rows of levels, one for each factor, such that any two levels of different
// factors are in at least one row together. It is greedy: a row begins with a missing pair and
// takes for each other factor the level that adds most pairs.
func pairwise(sizes []int) [][]int {
	missing := missingPairs(sizes)
	var rows [][]int
	for len(missing) > 0 {
		row := slices.Repeat([]int{-1}, len(sizes))
		first := slices.MinFunc(slices.Collect(maps.Keys(missing)), func(a, b [2]choice) int {
			return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
		})
		row[first[0].factor], row[first[1].factor] = first[0].level, first[1].level
		for f, size := range sizes {
			if row[f] < 0 {
				row[f] = bestLevel(row, f, size, missing)
			}
		}
		for a := range sizes {
			for b := a + 1; b < len(sizes); b++ {
				delete(missing, [2]choice{{a, row[a]}, {b, row[b]}})
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func missingPairs(sizes []int) map[[2]choice]bool {
	missing := map[[2]choice]bool{}
	for a, na := range sizes {
		for b := a + 1; b < len(sizes); b++ {
			for i := range na {
				for j := range sizes[b] {
					missing[[2]choice{{a, i}, {b, j}}] = true
				}
			}
		}
	}
	return missing
}

// bestLevel returns the level of a factor that adds the most missing pairs to the row.
func bestLevel(row []int, f, size int, missing map[[2]choice]bool) int {
	top, found := -1, 0
	for level := range size {
		gain := 0
		for g, other := range row {
			pair := [2]choice{{min(f, g), level}, {max(f, g), other}}
			if g < f {
				pair[0].level, pair[1].level = other, level
			}
			if other >= 0 && missing[pair] {
				gain++
			}
		}
		if gain > top {
			top, found = gain, level
		}
	}
	return found
}

// mergeLevels merges the levels of a row.
func mergeLevels(all []factor, row []int) documents {
	docs := documents{}
	for f, level := range row {
		for kind, content := range all[f].levels[level] {
			docs[kind] = mergeMaps(docs[kind], content)
		}
	}
	return docs
}

// mergeMaps merges two maps recursively; values of over replace those of under.
func mergeMaps(under, over map[string]any) map[string]any {
	result := maps.Clone(under)
	if result == nil {
		result = map[string]any{}
	}
	for key, v := range over {
		inner, isMap := v.(map[string]any)
		below, wasMap := result[key].(map[string]any)
		if isMap && wasMap {
			v = mergeMaps(below, inner)
		}
		result[key] = v
	}
	return result
}

// text returns the documents as a file.
func (d documents) text() string {
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(d)) {
		doc := mergeMaps(map[string]any{"apiVersion": apiVersionOf(kind), "kind": kind}, d[kind])
		data, err := yaml.Marshal(doc)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "---\n%s", data)
	}
	return b.String()
}

// apiVersionOf returns the newest version of a kind's API group.
func apiVersionOf(kind string) string {
	switch kind {
	case "KubeletConfiguration":
		return "kubelet.config.k8s.io/v1beta1"
	case "KubeProxyConfiguration":
		return "kubeproxy.config.k8s.io/v1alpha1"
	}
	return "kubeadm.k8s.io/v1beta4"
}

func TestPairwiseCoversAllPairs(t *testing.T) {
	sizes := []int{2, 5, 3, 3, 4}
	missing := missingPairs(sizes)
	rows := pairwise(sizes)
	for _, row := range rows {
		for a := range sizes {
			for b := a + 1; b < len(sizes); b++ {
				delete(missing, [2]choice{{a, row[a]}, {b, row[b]}})
			}
		}
	}
	if len(missing) > 0 {
		t.Errorf("not in any row: %v", missing)
	}
	if len(rows) > 30 {
		t.Errorf("%d rows, where 20 would do", len(rows))
	}
}
