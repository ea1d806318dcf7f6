package kube

import (
	"errors"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
)

// An API server can send a list as a table, with the columns that "kubectl get" prints and the metadata of the objects. One
// column of Nodes is the version of the kubelet: a table of it saves the server from encoding the rest of each Node, most of
// which are its images. Columns are found by name. Without the expected one, the objects are read.
const (
	asTable          = "application/json;as=Table;v=v1;g=meta.k8s.io"
	versionColumn    = "Version"
	kubeletVersionOf = "status.nodeInfo.kubeletVersion"
)

// errNoColumn is the error of a table that lacks the expected column.
var errNoColumn = errors.New("the table has no column " + versionColumn)

// fitsTable reports whether a table has all that the query needs.
func fitsTable(q state.Query) bool {
	return q.GVK == state.NodeKind && slices.Contains(q.Fields, kubeletVersionOf) &&
		!slices.ContainsFunc(q.Fields, func(path string) bool {
			return path != kubeletVersionOf && path != "metadata" && !strings.HasPrefix(path, "metadata.")
		})
}

// findColumn decodes the definitions of columns, and returns the number of the expected one.
func findColumn(d *jsontext.Decoder) (int, error) {
	var columns []metav1.TableColumnDefinition
	if err := readValue(d, &columns); err != nil {
		return 0, err
	}
	i := slices.IndexFunc(columns, func(c metav1.TableColumnDefinition) bool { return c.Name == versionColumn })
	if i < 0 {
		return 0, errNoColumn
	}
	return i, nil
}

// decodeRows decodes the rows of a table as objects that have the field of the column.
func decodeRows(d *jsontext.Decoder, q state.Query, column int) ([]unstructured.Unstructured, error) {
	return decodeEach(d, q, func() (map[string]any, error) {
		object, cells := map[string]any{}, []any(nil)
		err := readMembers(d, func(name string) (err error) {
			switch name {
			case "cells":
				return readValue(d, &cells)
			case "object":
				object, err = decodeFields(d, []string{"metadata"})
				return err
			}
			return d.SkipValue()
		})
		if err != nil {
			return nil, err
		}
		if column < 0 || column >= len(cells) {
			return nil, errNoColumn
		}
		return object, unstructured.SetNestedField(object, cells[column], strings.Split(kubeletVersionOf, ".")...)
	})
}
