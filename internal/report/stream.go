package report

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kubeadm/internal/engine"
)

// apiVersion is the API group and version of results and events. Its schema is
// docs/reference/run.schema.json.
const apiVersion = "run.kubeadm.k8s.io/v1beta1"

// RunEvent is an event of a run as programs read it.
type RunEvent struct {
	metav1.TypeMeta `json:",inline"`
	Time            time.Time   `json:"time"`
	Type            engine.Kind `json:"type"`
	Preview         bool        `json:"dryRun,omitempty"`
	Phase           string      `json:"phase,omitempty"`
	Message         string      `json:"message,omitempty"`
	Check           string      `json:"check,omitempty"`
	Subject         string      `json:"subject,omitempty"` // what is waited for
	// When that began of which this is the end, and how long it took.
	Start           *time.Time `json:"start,omitempty"`
	DurationSeconds *float64   `json:"durationSeconds,omitempty"`

	Changes           `json:",inline"`
	NodeName          string       `json:"nodeName,omitempty"`
	KubernetesVersion string       `json:"kubernetesVersion,omitempty"`
	JoinCommand       *JoinCommand `json:"joinCommand,omitempty"`
}

// JoinCommand is how machines join with one token. Values that are withheld are
// engine.Withheld.
type JoinCommand struct {
	Worker         string     `json:"worker"`
	ControlPlane   string     `json:"controlPlane,omitempty"`
	Endpoint       string     `json:"endpoint"`
	Token          string     `json:"token"`
	TokenExpires   *time.Time `json:"tokenExpires,omitempty"`
	CACertHashes   []string   `json:"caCertHashes"`
	CertificateKey string     `json:"certificateKey,omitempty"`
}

// newRunEvent returns the event for programs; not ok if there is nothing in it for them.
func newRunEvent(e engine.Event) (r RunEvent, ok bool) {
	if e.Kind == engine.Joined || e.Kind == engine.Changing {
		return r, false
	}
	r = RunEvent{TypeMeta: metav1.TypeMeta{Kind: "RunEvent", APIVersion: apiVersion},
		Time: e.Time.UTC(), Type: e.Kind, Preview: e.Preview, Phase: e.Phase,
		Message: messageOf(e), Check: e.Check, Subject: Redact(e.Subject),
		Changes: changesOf(e)}
	if !e.Start.IsZero() {
		start, seconds := e.Start.UTC(), e.Time.Sub(e.Start).Seconds()
		r.Start, r.DurationSeconds = &start, &seconds
	}
	if e.Node != nil {
		r.NodeName, r.KubernetesVersion = e.Node.Name, e.Node.Cluster.Version
	}
	if e.Join != nil {
		c := newJoinCommand(*e.Join)
		r.JoinCommand = &c
	}
	return r, true
}

func newJoinCommand(c engine.JoinCommands) JoinCommand {
	j := JoinCommand{Worker: onOneLine(c.Worker), ControlPlane: onOneLine(c.ControlPlane),
		Endpoint: c.Endpoint, Token: c.Token, CACertHashes: c.CACertHashes,
		CertificateKey: c.CertificateKey}
	if !c.Expires.IsZero() {
		expires := c.Expires.UTC()
		j.TokenExpires = &expires
	}
	return j
}

// onOneLine joins the lines of a shell command that end in a backslash.
func onOneLine(command string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(command, "\\\n", " ")), " ")
}

// Stream writes each event as a line of JSON as soon as it happens.
type Stream struct {
	To io.Writer

	mu  sync.Mutex
	err error
}

// Emit writes one event. After an error, such as a closed pipe, nothing more is written.
func (s *Stream) Emit(e engine.Event) {
	if event, ok := newRunEvent(e); ok {
		_ = s.write(event) // End returns it
	}
}

// End writes the result as the last line. It returns the first error of all writes.
func (s *Stream) End(r Result) error { return s.write(r) }

// write writes one line, unless an earlier one has failed, and returns the first error.
func (s *Stream) write(object any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		lines := json.NewEncoder(s.To)
		lines.SetEscapeHTML(false)
		s.err = lines.Encode(object)
	}
	return s.err
}
