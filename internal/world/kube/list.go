package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// pageSize is the most objects that one request asks for. It is that of kubectl.
const pageSize = 500

// timePerPage is how much longer a list may take for each page that has arrived. A page of Nodes is about 7 MB. A list of
// fixed time would fail in a large cluster, and one with such a time for each page could take hours.
const timePerPage = 5 * time.Second

// metadataOnly is the content type of a list of metav1.PartialObjectMetadata.
const metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

// List reads the objects of a kind and namespace that match both selectors; an empty namespace
// means all. It reads pages, or with a limit one, and retries the request for each as Object does. The whole list may
// take as long as one object, and timePerPage longer for each page that has arrived.
func (k *Cluster) List(ctx context.Context, q state.Query) ([]unstructured.Unstructured, error) {
	var found []unstructured.Unstructured
	var version string // of the first page: others may be newer, if the list has become too old
	progress := listProgress{kind: q.GVK.Kind, reported: time.Now()}
	limit := time.Now().Add(cmp.Or(world.RetryLimit(ctx), k.Timeout, defaultTimeout))
	ctx, pauses := world.CountPauses(ctx)
	for next := ""; ; limit = limit.Add(timePerPage) {
		var p page
		err := k.retryPage(ctx, limit, pauses, request{as: q.As, op: "listing " + q.GVK.Kind + " objects",
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
		version = cmp.Or(version, p.version)
		if next = p.next; next == "" || q.Limit > 0 {
			if q.OnVersion != nil {
				q.OnVersion(version)
			}
			return found, nil
		}
		progress.add(ctx, len(p.objects))
	}
}

// retryPage reads a page of a list that may take until the limit, and as much longer as a busy server has asked for
// pauses, now and for earlier pages, but at most world.Patience.
func (k *Cluster) retryPage(ctx context.Context, limit time.Time, pauses *world.Pauses, a request) error {
	a.timeout = max(time.Until(limit.Add(pauses.Total())).Round(time.Second), time.Second)
	ctx, cancel := context.WithTimeout(ctx, a.timeout+world.Patience-pauses.Total())
	defer cancel()
	return k.retry(ctx, a)
}

// listProgress reports after a page how far a list is, at most once in progressInterval.
type listProgress struct {
	kind     string
	count    int       // objects read
	reported time.Time // or begun
}

func (l *listProgress) add(ctx context.Context, count int) {
	l.count += count
	if now := time.Now(); now.Sub(l.reported) >= progressInterval {
		l.reported = now
		world.ReportListing(ctx, l.kind, l.count)
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
	version string // of the list
}

// readPage reads a page without calling the query's Keep. It decodes object by object, so that it takes
// no more memory than what the query needs of them.
func (c *client) readPage(ctx context.Context, q state.Query, next string) (page, error) {
	switch {
	case q.MetadataOnly():
		return c.readPageAs(ctx, q, next, metadataOnly)
	case fitsTable(q):
		if p, err := c.readPageAs(ctx, q, next, asTable); !errors.Is(err, errNoColumn) {
			return p, err
		}
	}
	return c.readPageAs(ctx, q, next, "")
}

// readPageAs reads a page in a form of the API machinery; empty for the objects themselves, which an API server without that
// form sends as well.
func (c *client) readPageAs(ctx context.Context, q state.Query, next, form string) (page, error) {
	r, err := newQuery(c.lists, q)
	if err != nil {
		return page{}, err
	}
	r.Param("limit", strconv.Itoa(cmp.Or(q.Limit, pageSize)))
	if next != "" {
		r.Param("continue", next)
	}
	if form != "" {
		r.SetHeader("Accept", form, "application/json")
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

// newQuery returns the request for the objects of a query.
func newQuery(requests rest.Interface, q state.Query) (*rest.Request, error) {
	kind, _, err := resource(q.GVK, q.Namespace)
	if err != nil {
		return nil, err
	}
	root := []string{"apis", kind.Group, kind.Version}
	if kind.Group == "" {
		root = []string{"api", kind.Version}
	}
	r := requests.Get().AbsPath(root...).NamespaceIfScoped(q.Namespace, q.Namespace != "").Resource(kind.Resource)
	for name, value := range map[string]string{"labelSelector": q.LabelSelector, "fieldSelector": q.FieldSelector} {
		if value != "" {
			r.Param(name, value)
		}
	}
	return r, nil
}

// decodePage reads a page as it arrives.
func decodePage(r io.Reader, q state.Query) (p page, err error) {
	// Package encoding/json decodes such names and text too.
	d := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	column := -1
	err = readMembers(d, func(name string) (err error) {
		switch name {
		case "items":
			p.objects, err = decodeItems(d, q)
			return err
		case "columnDefinitions":
			column, err = findColumn(d)
			return err
		case "rows":
			p.objects, err = decodeRows(d, q, column)
			return err
		case "metadata":
			var meta metav1.ListMeta
			err = readValue(d, &meta)
			p.next, p.version = meta.Continue, meta.ResourceVersion
			return err
		}
		return d.SkipValue()
	})
	return p, err
}

func decodeItems(d *jsontext.Decoder, q state.Query) ([]unstructured.Unstructured, error) {
	paths := append([]string{"apiVersion", "kind", "metadata"}, q.Fields...)
	return decodeEach(d, q, func() (map[string]any, error) {
		if q.Fields != nil {
			return decodeFields(d, paths)
		}
		object := map[string]any{}
		return object, readValue(d, &object)
	})
}

// decodeEach decodes the elements of a JSON array as objects of the query, each with decode.
func decodeEach(d *jsontext.Decoder, q state.Query,
	decode func() (map[string]any, error)) (found []unstructured.Unstructured, err error) {
	if d.PeekKind() == jsontext.KindNull {
		return nil, d.SkipValue()
	}
	if err := expect(d, jsontext.KindBeginArray); err != nil {
		return nil, err
	}
	for d.PeekKind() == jsontext.KindBeginObject {
		var o unstructured.Unstructured
		if o.Object, err = decode(); err != nil {
			return nil, err
		}
		o.SetGroupVersionKind(q.GVK) // items have none, or that of PartialObjectMetadata
		if q.Filter(&o) {
			found = append(found, o)
		}
	}
	return found, expect(d, jsontext.KindEndArray)
}

// decodeFields decodes the fields of a JSON object that the paths lead to. It skips the others: the images of a Node and
// managedFields would take most of the time.
func decodeFields(d *jsontext.Decoder, paths []string) (map[string]any, error) {
	decoded := map[string]any{}
	return decoded, readMembers(d, func(name string) (err error) {
		var below []string
		needed, whole := false, false
		for _, path := range paths {
			first, rest, more := strings.Cut(path, ".")
			if first == name {
				needed, whole, below = true, whole || !more, append(below, rest)
			}
		}
		var value any
		switch isObject := d.PeekKind() == jsontext.KindBeginObject; {
		case !needed:
			return d.SkipValue()
		case name == "metadata" && isObject:
			value, err = decodeMetadata(d)
		case !whole && isObject:
			value, err = decodeFields(d, below)
		default:
			err = readValue(d, &value)
		}
		decoded[name] = value
		return err
	})
}

func decodeMetadata(d *jsontext.Decoder) (map[string]any, error) {
	decoded := map[string]any{}
	return decoded, readMembers(d, func(name string) error {
		if name == "managedFields" {
			return d.SkipValue()
		}
		var value any
		err := readValue(d, &value)
		decoded[name] = value
		return err
	})
}

// readMembers calls read for each member of a JSON object, to read its value.
func readMembers(d *jsontext.Decoder, read func(name string) error) error {
	if err := expect(d, jsontext.KindBeginObject); err != nil {
		return err
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return err
		}
		if err := read(name.String()); err != nil {
			return err
		}
	}
	return expect(d, jsontext.KindEndObject)
}

// readValue decodes a value as the API machinery does: whole numbers are int64.
func readValue(d *jsontext.Decoder, into any) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	return utiljson.Unmarshal(raw, into)
}

func expect(d *jsontext.Decoder, want jsontext.Kind) error {
	got, err := d.ReadToken()
	if err == nil && got.Kind() != want {
		err = fmt.Errorf("the answer has %v where %v belongs", got.Kind(), want)
	}
	return err
}
