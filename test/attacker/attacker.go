// Package attacker is a server that shows whoever asks what it was told to show, and writes down all that it is told. Tests
// run it on a node in the place of an API server or a web server, honest or not.
package attacker

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
)

// Plan is what to show, and where.
type Plan struct {
	Listen    string            // "host:port"
	Cert, Key string            // PEM; without them it speaks plain http
	Answers   map[string]Answer // by path; all others are not found
}

// Answer is what a path shows.
type Answer struct {
	Status   int
	Location string // to be redirected to
	Body     string
}

// Request is what the attacker was told.
type Request struct {
	Path         string
	Header       http.Header
	Certificates []string // subjects of the client certificates that were shown
	Body         string
}

// Serve reads a Plan from in and follows it, and writes each Request to out, both as JSON. It returns when it fails.
func Serve(in io.Reader, out io.Writer) error {
	var p Plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	l, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &handler{plan: p, out: json.NewEncoder(out)}}
	if p.Cert == "" {
		return server.Serve(l)
	}
	pair, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
	if err != nil {
		return err
	}
	// Whoever shows a certificate gives himself away, whether it is any good or not.
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	return server.ServeTLS(l, "", "")
}

// handler is where a plan is carried out.
type handler struct {
	plan Plan
	mu   sync.Mutex
	out  *json.Encoder
}

func (s *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.record(r)
	a, ok := s.plan.Answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Body)
}

// record notes what was told.
func (s *handler) record(r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	told := Request{Path: r.URL.String(), Header: r.Header, Body: string(body)}
	if r.TLS != nil {
		for _, c := range r.TLS.PeerCertificates {
			told.Certificates = append(told.Certificates, c.Subject.String())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(told); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
}
