package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kubeadm/internal/state"
)

// pageSize is the most objects that one request asks for. It is that of kubectl.
const pageSize = 500

// metadataOnly is the content type of a list of metav1.PartialObjectMetadata.
const metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

// List reads the objects of a kind and namespace that match both selectors; an empty namespace
// means all. It reads pages, or with a limit one, and retries the request for each as Object does.
func (k *Cluster) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	for next := ""; ; {
		var p page
		err := k.retry(ctx, request{as: q.As, op: "listing " + q.GVK.Kind + " objects",
			isRetryable: isServerBusy, isRead: true, do: func(ctx context.Context, c *client) error {
				var err error
				p, err = c.readPage(ctx, q, next)
				if fresh := freshContinue(err); next != "" && fresh != "" {
					p, err = c.readPage(ctx, q, fresh)
				}
				return err
			}})
		if err != nil {
			return nil, err
		}
		for _, o := range p.objects {
			if q.Keep == nil || q.Keep(&o) {
				found = append(found, o)
			}
		}
		if next = p.next; next == "" || q.Limit > 0 {
			return found, nil
		}
	}
}

// freshContinue returns the token with which an API server offers to continue a list that has become
// too old, from the next object on; empty if the error is another one.
func freshContinue(err error) string {
	var answer apierrors.APIStatus
	if apierrors.IsResourceExpired(err) && errors.As(err, &answer) {
		return answer.Status().Continue
	}
	return ""
}

// page is a part of a list.
type page struct {
	objects []unstructured.Unstructured
	next    string // for the next page; empty after the last one
}

// readPage reads a page without calling the query's Keep. It decodes object by object, so that it takes
// no more memory than what the query needs of them.
func (c *client) readPage(ctx context.Context, q state.Query, next string) (page, error) {
	kind, _, err := resource(q.GVK, q.Namespace)
	if err != nil {
		return page{}, err
	}
	root := []string{"apis", kind.Group, kind.Version}
	if kind.Group == "" {
		root = []string{"api", kind.Version}
	}
	r := c.lists.Get().AbsPath(root...).NamespaceIfScoped(q.Namespace, q.Namespace != "").
		Resource(kind.Resource).Param("limit", strconv.Itoa(cmp.Or(q.Limit, pageSize)))
	for name, value := range map[string]string{"labelSelector": q.LabelSelector,
		"fieldSelector": q.FieldSelector, "continue": next} {
		if value != "" {
			r.Param(name, value)
		}
	}
	if q.MetadataOnly() {
		r.SetHeader("Accept", metadataOnly, "application/json")
	}
	body, err := r.Stream(ctx)
	if err != nil {
		return page{}, err
	}
	defer body.Close()
	q.Keep = nil
	p, err := decodePage(body, q)
	if err != nil {
		// the connection may have been lost
		err = &url.Error{Op: "Get", URL: r.URL().String(), Err: err}
	}
	return p, err
}

func decodePage(r io.Reader, q state.Query) (p page, err error) {
	d := json.NewDecoder(r)
	if err := expect(d, json.Delim('{')); err != nil {
		return p, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return p, err
		}
		var value any
		switch name {
		case "items":
			p.objects, err = decodeItems(d, q)
		case "metadata":
			var meta metav1.ListMeta
			err = d.Decode(&meta)
			p.next = meta.Continue
		default:
			err = d.Decode(&value)
		}
		if err != nil {
			return p, err
		}
	}
	return p, expect(d, json.Delim('}'))
}

func decodeItems(d *json.Decoder, q state.Query) (found []unstructured.Unstructured, err error) {
	begin, err := d.Token()
	if err != nil || begin == nil { // the list is null
		return nil, err
	}
	if begin != json.Delim('[') {
		return nil, fmt.Errorf("the items of the list begin with %v", begin)
	}
	var paths []string // nil: all
	if q.Fields != nil {
		paths = append([]string{"apiVersion", "kind", "metadata"}, q.Fields...)
	}
	for d.More() {
		var members map[string]json.RawMessage
		if err := d.Decode(&members); err != nil {
			return nil, err
		}
		var o unstructured.Unstructured
		if o.Object, err = decodeMembers(members, paths); err != nil {
			return nil, err
		}
		o.SetGroupVersionKind(q.GVK) // items have none, or that of PartialObjectMetadata
		if q.Filter(&o) {
			found = append(found, o)
		}
	}
	return found, expect(d, json.Delim(']'))
}

// decodeMembers decodes those members of a JSON object that the paths lead to, or all if paths is nil. The
// others, such as the images of a Node and managedFields, would take most of the time.
func decodeMembers(members map[string]json.RawMessage, paths []string) (map[string]any, error) {
	decoded := map[string]any{}
	for name, raw := range members {
		var below []string
		needed, whole := paths == nil, paths == nil
		for _, path := range paths {
			first, rest, more := strings.Cut(path, ".")
			if first == name {
				needed, whole, below = true, whole || !more, append(below, rest)
			}
		}
		var inside map[string]json.RawMessage
		var err error
		switch {
		case !needed:
			continue
		case name == "metadata" && paths != nil && json.Unmarshal(raw, &inside) == nil:
			delete(inside, "managedFields")
			decoded[name], err = decodeMembers(inside, nil)
		case !whole && json.Unmarshal(raw, &inside) == nil:
			decoded[name], err = decodeMembers(inside, below)
		default:
			var value any
			err = utiljson.Unmarshal(raw, &value)
			decoded[name] = value
		}
		if err != nil {
			return nil, err
		}
	}
	return decoded, nil
}

func expect(d *json.Decoder, want json.Token) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("the answer has %v where %v belongs", got, want)
	}
	return err
}
