package portable

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/state"
	"kubeadm/internal/untrusted"
	"kubeadm/internal/world"
)

const clusterInfoPath = "/api/v1/namespaces/kube-public/configmaps/cluster-info"

// ClusterInfo reads the data of the public ConfigMap kube-public/cluster-info, without
// credentials. With a nil ca it is the first step of token discovery: the server is not verified,
// and the caller must check the signature of the data with the bootstrap token. Errors of the API
// server work with apierrors.IsNotFound and the like.
func (m Machine) ClusterInfo(ctx context.Context, server string,
	ca []byte) (map[string]string, error) {
	base, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	if base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("the API server %q is not an https URL", server)
	}
	config := &tls.Config{InsecureSkipVerify: true}
	if ca != nil {
		if config, err = newTLSConfig(state.Request{CA: ca}); err != nil {
			return nil, err
		}
	}
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment,
			TLSClientConfig: config},
		CheckRedirect: returnRedirect,
	}
	var answer state.Response
	readHealth := func(ctx context.Context) string {
		health, _ := httpGet(ctx, client, base.JoinPath("/readyz").String())
		return string(health.Body)
	}
	err = world.CallWithEtcdCheck(ctx, readHealth, func(ctx context.Context) (err error) {
		answer, err = httpGet(ctx, client, base.JoinPath(clusterInfoPath).String())
		return err
	})
	if err != nil {
		return nil, err
	}
	info, err := parseClusterInfo(answer)
	if err != nil && answer.RetryAfter > 0 {
		err = world.RetryAfter(err, answer.RetryAfter)
	}
	return info, err
}

func parseClusterInfo(answer state.Response) (map[string]string, error) {
	if answer.Status/100 == 3 {
		return nil, fmt.Errorf(
			"getting cluster-info: the server returned a redirect (%d %s), as no API server does: %w",
			answer.Status, http.StatusText(answer.Status), state.ErrRedirected)
	}
	if answer.Status != http.StatusOK {
		var s metav1.Status
		if err := json.Unmarshal(answer.Body, &s); err == nil && s.Kind == "Status" {
			return nil, fmt.Errorf("getting cluster-info: the server returned %w",
				untrusted.QuotedError(apierrors.FromObject(&s)))
		}
		return nil, fmt.Errorf(
			"getting cluster-info: the server returned %d %s; is it a Kubernetes API server?",
			answer.Status, http.StatusText(answer.Status))
	}
	var m struct {
		Kind string            `json:"kind"`
		Data map[string]string `json:"data"`
	}
	if err := json.Unmarshal(answer.Body, &m); err != nil {
		return nil, fmt.Errorf("reading cluster-info: %w", untrusted.Error(err))
	}
	if m.Kind != "ConfigMap" {
		return nil, errors.New(
			"the server answered something other than the ConfigMap cluster-info; is it a Kubernetes API server?")
	}
	return m.Data, nil
}
