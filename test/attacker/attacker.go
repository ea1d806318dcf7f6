// Package attacker is an HTTP server with planned answers that records all requests. Tests run it
// on a node in place of an API server or a web server, hostile or not.
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

// Plan holds the server's address, certificate and answers.
type Plan struct {
	Listen    string            // "host:port"
	Cert, Key string            // PEM; if empty, the server speaks plain HTTP
	Answers   map[string]Answer // by path; other paths return 404
}

// Answer is the response for a path.
type Answer struct {
	Status   int
	Location string // target of a redirect
	Body     string
}

// Request is a request that the server received.
type Request struct {
	Path         string
	Header       http.Header
	Certificates []string // subjects of the client certificates
	Body         string
}

// Serve reads a Plan from in, serves it, and writes each Request to out, both as JSON. It returns
// only on failure.
func Serve(in io.Reader, out io.Writer) error {
	var p Plan
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	l, err := net.Listen("tcp", p.Listen)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: &planServer{plan: p, out: json.NewEncoder(out)}}
	if p.Cert == "" {
		return server.Serve(l)
	}
	pair, err := tls.X509KeyPair([]byte(p.Cert), []byte(p.Key))
	if err != nil {
		return err
	}
	// Any client certificate is recorded, valid or not.
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair},
		ClientAuth: tls.RequestClientCert}
	return server.ServeTLS(l, "", "")
}

// planServer serves a plan.
type planServer struct {
	plan Plan
	mu   sync.Mutex
	out  *json.Encoder
}

func (s *planServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// record writes a request to out.
func (s *planServer) record(r *http.Request) {
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	request := Request{Path: r.URL.String(), Header: r.Header, Body: string(body)}
	if r.TLS != nil {
		for _, c := range r.TLS.PeerCertificates {
			request.Certificates = append(request.Certificates, c.Subject.String())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(request); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
}
