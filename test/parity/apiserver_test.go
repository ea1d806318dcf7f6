package parity

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// object is an API object as data.
type object = map[string]any

// apiServer stores objects by their path and serves the requests that kubeadm makes, without
// authentication.
type apiServer struct {
	mu      sync.Mutex
	version string // of Kubernetes
	objects map[string]object
}

// kindsByResource are the kinds that the server supports, by the resource's name in a path.
var kindsByResource = map[string]string{
	"configmaps": "ConfigMap", "secrets": "Secret", "nodes": "Node",
	"serviceaccounts": "ServiceAccount", "services": "Service", "pods": "Pod",
	"roles": "Role", "rolebindings": "RoleBinding", "clusterroles": "ClusterRole",
	"clusterrolebindings": "ClusterRoleBinding",
	"deployments":         "Deployment", "daemonsets": "DaemonSet", "jobs": "Job",
	"leases": "Lease",
}

// storedVersion matches the version of Kubernetes in ConfigMap kubeadm-config.
var storedVersion = regexp.MustCompile(`(?m)^\s*kubernetesVersion: (v\S+)$`)

// newAPIServer returns a server with the objects of a file.
func newAPIServer(file string) (*apiServer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	s := &apiServer{objects: map[string]object{}}
	for _, doc := range strings.Split(string(data), "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil || o == nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.objects[objectPath(o)] = normalizeObject(o)
	}
	m := storedVersion.FindSubmatch(data)
	if m == nil {
		return nil, fmt.Errorf("%s: no kubernetesVersion", file)
	}
	s.version = string(m[1])
	s.addLeaders()
	return s, nil
}

// addLeaders adds the Leases that the controller manager and the scheduler of a cluster renew.
func (s *apiServer) addLeaders() {
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		o := object{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
			"metadata": object{"name": name, "namespace": "kube-system"},
			"spec": object{"holderIdentity": "cp1_1",
				"renewTime": time.Now().UTC().Format(metav1.RFC3339Micro)}}
		s.objects[objectPath(o)] = o
	}
}

// serve listens at the address with the serving certificate in a directory.
func (s *apiServer) serve(address, dir string) error {
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"),
		filepath.Join(dir, "apiserver.key"))
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", address,
		&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		return err
	}
	go http.Serve(l, s)
	return nil
}

// writeObjects writes every object to a file in a directory, except for those that only last as
// long as a command does.
func (s *apiServer) writeObjects(dir string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, o := range s.objects {
		if o["kind"] == "Lease" || o["kind"] == "Job" {
			continue
		}
		data, err := yaml.Marshal(o)
		if err != nil {
			return err
		}
		name := strings.Join([]string{o["kind"].(string), metadataField(o, "namespace"),
			metadataField(o, "name")}, " ")
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "  ", " ")+".yaml"),
			data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func metadataField(o object, field string) string {
	meta, _ := o["metadata"].(object)
	s, _ := meta[field].(string)
	return s
}

// objectPath returns the URL path of an object.
func objectPath(o object) string {
	kind, _ := o["kind"].(string)
	resource := ""
	for name, k := range kindsByResource {
		if k == kind {
			resource = name
		}
	}
	base := "/apis/" + fmt.Sprint(o["apiVersion"])
	if o["apiVersion"] == "v1" {
		base = "/api/v1"
	}
	if space := metadataField(o, "namespace"); space != "" {
		base += "/namespaces/" + space
	}
	return base + "/" + resource + "/" + metadataField(o, "name")
}

// ServeHTTP reads or changes one object, or lists the objects of a resource.
func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	kind, isCollection := kindsByResource[last]
	switch {
	case parts[0] == "version":
		s.respond(w, http.StatusOK, object{"major": "1", "gitVersion": s.version,
			"minor": strings.Split(s.version, ".")[1]})
	case parts[0] != "api" && parts[0] != "apis":
		fmt.Fprint(w, "ok")
	case strings.HasSuffix(last, "reviews"):
		s.respond(w, http.StatusCreated, object{"status": object{"allowed": true}})
	case isCollection && r.Method == http.MethodPost:
		s.serveCreate(w, r)
	case isCollection:
		s.serveList(w, r, kind)
	default:
		s.serveObject(w, r)
	}
}

func (s *apiServer) respond(w http.ResponseWriter, code int, o object) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(o)
}

func (s *apiServer) respondError(w http.ResponseWriter, code int, reason, name string) {
	s.respond(w, code, object{"kind": "Status", "apiVersion": "v1", "status": "Failure",
		"reason": reason, "code": code, "message": name + ": " + reason,
		"details": object{"name": name}})
}

func (s *apiServer) serveCreate(w http.ResponseWriter, r *http.Request) {
	o, err := decodeBody(r)
	if err != nil {
		s.respondError(w, http.StatusBadRequest, "BadRequest", err.Error())
		return
	}
	path := r.URL.Path + "/" + metadataField(o, "name")
	if s.objects[path] != nil {
		s.respondError(w, http.StatusConflict, "AlreadyExists", metadataField(o, "name"))
		return
	}
	if o["kind"] == "Job" {
		o["status"] = object{"conditions": []any{object{"type": "Complete", "status": "True"}}}
	}
	if r.URL.Query().Get("dryRun") == "" {
		s.objects[path] = o
	}
	s.respond(w, http.StatusCreated, o)
}

// decodeBody returns the object or patch in a request. Objects may be protobuf, which upstream's
// client prefers.
func decodeBody(r *http.Request) (object, error) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var o object
	if r.Method == http.MethodPatch {
		err = yaml.Unmarshal(data, &o)
		return o, err
	}
	typed, kind, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	typed.GetObjectKind().SetGroupVersionKind(*kind)
	if o, err = runtime.DefaultUnstructuredConverter.ToUnstructured(typed); err != nil {
		return nil, err
	}
	return normalizeObject(o), nil
}

// normalizeObject removes fields that depend on how an object was written. Nodes and Pods keep the
// status that the cluster begins with.
func normalizeObject(o object) object {
	if o["kind"] != "Node" && o["kind"] != "Pod" {
		delete(o, "status")
	}
	if meta, ok := o["metadata"].(object); ok {
		delete(meta, "creationTimestamp")
		delete(meta, "resourceVersion")
	}
	removeEmpty(o)
	return o
}

func (s *apiServer) serveList(w http.ResponseWriter, r *http.Request, kind string) {
	q := r.URL.Query()
	byLabel, err := labels.Parse(q.Get("labelSelector"))
	byField, ferr := fields.ParseSelector(q.Get("fieldSelector"))
	if err != nil || ferr != nil {
		s.respondError(w, http.StatusBadRequest, "BadRequest", "selector")
		return
	}
	items := []any{}
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[name]
		meta, _ := o["metadata"].(object)
		set := labels.Set{}
		if found, ok := meta["labels"].(object); ok {
			for k, v := range found {
				set[k] = fmt.Sprint(v)
			}
		}
		spec, _ := o["spec"].(object)
		about := fields.Set{"type": fmt.Sprint(o["type"]),
			"metadata.name": metadataField(o, "name"), "spec.nodeName": fmt.Sprint(spec["nodeName"]),
			"spec.unschedulable": fmt.Sprint(spec["unschedulable"] == true)}
		if path.Dir(name) == r.URL.Path && byLabel.Matches(set) && byField.Matches(about) {
			items = append(items, o)
		}
	}
	version := strings.TrimPrefix(strings.TrimPrefix(path.Dir(r.URL.Path), "/apis/"), "/api/")
	version, _, _ = strings.Cut(version, "/namespaces/")
	s.respond(w, http.StatusOK,
		object{"kind": kind + "List", "apiVersion": version, "metadata": object{}, "items": items})
}

func (s *apiServer) serveObject(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	now, found := s.objects[path]
	if !found && (r.Method != http.MethodPatch ||
		r.Header.Get("Content-Type") != "application/apply-patch+yaml") {
		s.respondError(w, http.StatusNotFound, "NotFound", filepath.Base(path))
		return
	}
	switch r.Method {
	case http.MethodDelete:
		delete(s.objects, path)
		s.respond(w, http.StatusOK,
			object{"kind": "Status", "apiVersion": "v1", "status": "Success"})
		return
	case http.MethodPut, http.MethodPatch:
		o, err := decodeBody(r)
		if err == nil && r.Method == http.MethodPatch {
			o, err = applyPatch(now, o)
		}
		if err != nil {
			s.respondError(w, http.StatusBadRequest, "BadRequest", err.Error())
			return
		}
		s.objects[path] = normalizeObject(o)
	}
	s.respond(w, http.StatusOK, s.objects[path])
}

// applyPatch applies a strategic merge patch; lists of a Node are merged by their keys.
func applyPatch(now, patch object) (object, error) {
	return strategicpatch.StrategicMergeMapPatch(now, patch, corev1.Node{})
}
