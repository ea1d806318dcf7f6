package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

// An API server sends a bookmark about once a minute where nothing changes. A load balancer that has lost it may keep the
// connection and send nothing. An object has at most 1.5 MiB, which is what etcd accepts.
const (
	defaultWatchSilence = 5 * time.Minute
	maxEventSize        = 8 << 20
)

var (
	errSilent   = errors.New("the API server sends nothing")
	errTimeout  = errors.New("the API server does not end the watch")
	errTooLarge = errors.New("an event of a watch is too large")
	errEnough   = errors.New("the caller has what it waited for")
)

// Watch calls OnEvent with changes of objects. It sends one request: how to go on after an error is up to the caller.
func (k *Cluster) Watch(ctx context.Context, w state.Watch) (version string, err error) {
	a := request{as: w.As, op: "watching " + w.GVK.Kind + " objects"}
	c, err := k.clientFor(w.As)
	if err != nil {
		return w.Version, wrapRequestError(a, "", err)
	}
	var asked atomic.Int64
	version, err = c.watch(context.WithValue(ctx, askedPauseKey{}, &asked), w, cmp.Or(k.WatchSilence, defaultWatchSilence))
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return "", nil
	case err != nil && c.isRejectedAfterStart(ctx, err):
		err = fmt.Errorf("the API server is starting: %v", err) // it is not the answer that it will give
	}
	err = wrapRequestError(a, c.server, err)
	if pause := time.Duration(asked.Load()); err != nil && pause > 0 {
		err = world.RetryAfter(err, pause)
	}
	return version, err
}

// watch returns no version if the API server has sent nothing for the time of silence, or has not ended the watch in time: then
// the connection may have been lost without a sign, also where watches are too short for the silence to be noticed.
func (c *client) watch(ctx context.Context, w state.Watch, silence time.Duration) (version string, err error) {
	r, err := newQuery(c.watches, w.Query)
	if err != nil {
		return w.Version, err
	}
	ctx, stop := context.WithTimeoutCause(ctx, w.Timeout+requestTimeout, errTimeout)
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(requestTimeout, func() { cancel(errSilent) })
	defer timer.Stop()
	body, err := r.Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", w.Version).
		Param("timeoutSeconds", strconv.Itoa(max(int(w.Timeout.Round(time.Second)/time.Second), 1))).Stream(ctx)
	if err != nil {
		if errors.Is(context.Cause(ctx), errSilent) {
			err = &url.Error{Op: "Get", URL: r.URL().String(), Err: errSilent}
		}
		return w.Version, err
	}
	defer body.Close()
	w.OnStart()
	events := &eventReader{from: body, timer: timer, silence: silence,
		end: sync.OnceFunc(func() { time.AfterFunc(w.Linger, func() { cancel(errEnough) }) })}
	version, err = readEvents(events, w)
	cause := context.Cause(ctx)
	switch {
	case err == nil, errors.Is(cause, errEnough):
		return version, nil
	case errors.Is(cause, errSilent), errors.Is(cause, errTimeout):
		return "", nil
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return version, err
	}
	return version, &url.Error{Op: "Get", URL: r.URL().String(), Err: err}
}

// eventReader reads a stream of events, each of limited size, and resets the timer at each.
type eventReader struct {
	from    io.Reader
	timer   *time.Timer
	silence time.Duration
	left    int    // of the present event
	end     func() // ends the stream after a time
}

func (e *eventReader) next() {
	e.timer.Reset(e.silence)
	e.left = maxEventSize
}

func (e *eventReader) Read(p []byte) (int, error) {
	n, err := e.from.Read(p)
	if e.left -= n; e.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// readEvents calls OnEvent with each event until the stream ends, and returns the version of the last one.
func readEvents(events *eventReader, w state.Watch) (version string, err error) {
	version = w.Version
	w.Keep = nil
	d := jsontext.NewDecoder(events, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		events.next()
		kind, raw, err := readEvent(d)
		switch {
		case errors.Is(err, io.EOF):
			return version, nil
		case err != nil:
			return version, err
		case kind == "ERROR":
			var answer metav1.Status
			if err := utiljson.Unmarshal(raw, &answer); err != nil {
				return version, err
			}
			return version, apierrors.FromObject(&answer)
		}
		var o unstructured.Unstructured
		if err := utiljson.Unmarshal(raw, &o.Object); err != nil {
			return version, err
		}
		if o.GetResourceVersion() == "" {
			return version, errors.New("an event of a watch has no resourceVersion")
		}
		version = o.GetResourceVersion()
		if kind == "BOOKMARK" {
			continue
		}
		o.SetGroupVersionKind(w.GVK)
		w.Filter(&o)
		if goesOn := w.OnEvent(&o, kind == "DELETED"); !goesOn && w.Linger <= 0 {
			return version, nil
		} else if !goesOn {
			events.end()
		}
	}
}

// readEvent reads one event. The error is io.EOF if there is none.
func readEvent(d *jsontext.Decoder) (kind string, object []byte, err error) {
	err = readMembers(d, func(name string) error {
		switch name {
		case "type":
			return readValue(d, &kind)
		case "object":
			raw, err := d.ReadValue()
			object = append([]byte(nil), raw...)
			return err
		}
		return d.SkipValue()
	})
	return kind, object, err
}
