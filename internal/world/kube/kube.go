// Package kube reads and changes objects of the API server, as the identity that each call names.
// It needs no API discovery, since it knows the kinds in use, and verifies the certificate of
// every server.
package kube

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kubeadm/internal/state"
	"kubeadm/internal/world"
)

const (
	defaultTimeout = time.Minute
	requestTimeout = 10 * time.Second
)

// Cluster reads and changes the objects of API servers. It is safe for concurrent use.
type Cluster struct {
	// UserAgent is the User-Agent header of requests, such as "kubeadm/v1.37.1".
	UserAgent string
	// Timeout limits one change with all its attempts if the context has no deadline; zero
	// means one minute.
	Timeout time.Duration
	// WatchSilence is how long an API server may send nothing to a watch; zero means five minutes.
	WatchSilence time.Duration

	readFile func(path string) ([]byte, error)
	mu       sync.Mutex
	clients  map[string]*client // by identity and content of the kubeconfig
}

// New returns a Cluster that reads kubeconfigs with readFile.
func New(readFile func(path string) ([]byte, error)) *Cluster {
	return &Cluster{readFile: readFile, clients: map[string]*client{}}
}

// Object reads one object. The error for one that does not exist satisfies apierrors.IsNotFound.
// It retries within the Timeout while the server is overloaded, and other transient errors as long
// as the context allows (world.RetryLimit).
func (k *Cluster) Object(ctx context.Context, ref state.Ref) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	err := k.retry(ctx, request{as: ref.As, op: "reading " + ref.String(),
		isRetryable: isServerBusy, isRead: true, do: func(ctx context.Context, c *client) error {
			r, err := c.resource(ref.GVK, ref.Namespace)
			if err == nil {
				found, err = r.Get(ctx, ref.Name, metav1.GetOptions{})
			}
			return err
		}})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Livez reads /livez of the API server once. An answer that says that it is not live is a
// *state.NotLiveError, which names the failed checks. The error of a refused user satisfies
// apierrors.IsUnauthorized or apierrors.IsForbidden.
func (k *Cluster) Livez(ctx context.Context, as state.Identity) error {
	var status int
	err := k.retry(ctx, request{as: as, op: "checking the health of the API server",
		isRetryable: func(error) bool { return false }, isRead: true,
		do: func(ctx context.Context, c *client) error {
			var report string
			var err error
			status, report, err = c.readHealth(ctx, "/livez")
			if err != nil || status == http.StatusOK {
				return err
			}
			return &state.NotLiveError{Status: status, Failed: world.FailedChecks(report)}
		}})
	switch {
	case err != nil && status == http.StatusUnauthorized:
		err = refusal{err, metav1.StatusReasonUnauthorized}
	case err != nil && status == http.StatusForbidden:
		err = refusal{err, metav1.StatusReasonForbidden}
	}
	return err
}

// PodLog returns the last log lines of a container. It asks once: what it says is not needed to go on.
func (k *Cluster) PodLog(ctx context.Context, of state.PodLog) (string, error) {
	var log string
	err := k.retry(ctx, request{as: of.As, op: "reading the log of Pod " + of.Namespace + "/" + of.Pod,
		isRetryable: func(error) bool { return false }, do: func(ctx context.Context, c *client) error {
			stream, err := c.lists.Get().AbsPath("/api/v1/namespaces", of.Namespace, "pods", of.Pod, "log").
				Param("container", of.Container).Param("previous", strconv.FormatBool(of.Previous)).
				Param("tailLines", strconv.Itoa(of.Lines)).Param("limitBytes", strconv.Itoa(state.PodLogLimit)).
				Stream(ctx)
			if err != nil {
				return err
			}
			defer stream.Close()
			data, err := io.ReadAll(io.LimitReader(stream, state.PodLogLimit)) // whatever the server sends
			log = string(data)
			return err
		}})
	return log, err
}

// refusal is the error of a health endpoint that refuses the user. It is no answer of the API, which is
// retried while the server may have just started.
type refusal struct {
	error
	reason metav1.StatusReason
}

func (r refusal) Unwrap() error         { return r.error }
func (r refusal) Status() metav1.Status { return metav1.Status{Reason: r.reason} }
