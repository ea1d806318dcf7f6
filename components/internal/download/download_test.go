package download

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve serves the bodies by path, and returns a client that trusts the server.
func serve(t *testing.T, bodies map[string]string) (*httptest.Server, *Client) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := bodies[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s, NewClient(s.Client().Transport)
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

func TestSaveVerifiesTheChecksum(t *testing.T) {
	good, other := sum("program"), sum("another program")
	for name, c := range map[string]struct {
		checksums, fault string // no fault: the file is saved
	}{
		"bare":           {checksums: good + "\n"},
		"upper case":     {checksums: strings.ToUpper(good)},
		"list":           {checksums: other + "  file.sig\n" + good + "  file\n"},
		"binary mode":    {checksums: good + " *file\n"},
		"with directory": {checksums: good + "  release/file\n"},
		"signed list": {checksums: "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n" + good +
			" *file\n-----BEGIN PGP SIGNATURE-----\n\nabc=\n"},
		"mismatch": {checksums: other, fault: "its SHA-256 checksum is " + good},
		"mismatch in a list": {checksums: other + "  file\n" + good + "  other\n",
			fault: "its SHA-256 checksum is " + good},
		"not listed": {checksums: good + "  other\n" + good + "  file.sig\n",
			fault: "does not list file"},
		"no checksum":          {checksums: "<html></html>", fault: "is not a SHA-256 checksum"},
		"another algorithm":    {checksums: good[:40] + "  file\n", fault: "is not a SHA-256 checksum"},
		"empty":                {checksums: "", fault: "does not list file"},
		"too large":            {checksums: strings.Repeat("x", 1<<21), fault: "too large"},
		"two bare checksums":   {checksums: good + "\n" + other, fault: "does not list file"},
		"checksum unpublished": {checksums: "-", fault: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			bodies := map[string]string{"/file": "program", "/file.sha256": c.checksums}
			if c.checksums == "-" {
				delete(bodies, "/file.sha256")
			}
			s, client := serve(t, bodies)
			to := filepath.Join(t.TempDir(), "file")
			err := client.Save(t.Context(), File{s.URL + "/file", s.URL + "/file.sha256"}, to)
			data, missing := os.ReadFile(to)
			switch {
			case c.fault == "" && (err != nil || string(data) != "program"):
				t.Errorf("got %q, %v", data, err)
			case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
				t.Errorf("got %v, want %q", err, c.fault)
			case c.fault != "" && missing == nil:
				t.Error("the file was kept")
			}
		})
	}
}

func TestOnlyHTTPS(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, sum("program"))
	}))
	t.Cleanup(plain.Close)
	redirect := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(redirect.Close)
	client := NewClient(redirect.Client().Transport)
	faults := map[string]string{plain.URL: "is not an https URL", redirect.URL: "refusing a redirect"}
	for url, fault := range faults {
		err := client.Save(t.Context(), File{url, url}, filepath.Join(t.TempDir(), "file"))
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%s: got %v, want %q", url, err, fault)
		}
	}
}

func TestUntrustedServerIsRefused(t *testing.T) {
	s, _ := serve(t, map[string]string{"/file": "program", "/file.sha256": sum("program")})
	client := NewClient(http.DefaultTransport)
	file := File{s.URL + "/file", s.URL + "/file.sha256"}
	if err := client.Save(t.Context(), file, filepath.Join(t.TempDir(), "file")); err == nil {
		t.Error("a certificate of an unknown CA was accepted")
	}
}

func TestStalledTransferFails(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(s.Close)
	client := NewClient(s.Client().Transport)
	client.Stall = 50 * time.Millisecond
	file := File{s.URL + "/file", s.URL + "/file.sha256"}
	err := client.Save(t.Context(), file, filepath.Join(t.TempDir(), "file"))
	if err == nil || !strings.Contains(err.Error(), "no data for 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestSaveMembers(t *testing.T) {
	files := map[string]string{"./bin/tool": "tool", "bin/other": "other", "LICENSE": "text"}
	packed := pack(t, files, "bin/link")
	bodies := map[string]string{"/a.tgz": packed, "/a.tgz.sha256": sum(packed) + "  a.tgz\n"}
	s, client := serve(t, bodies)
	for name, c := range map[string]struct {
		members map[string]string
		fault   string
	}{
		"some": {members: map[string]string{"bin/tool": "renamed", "bin/other": "other"}},
		"missing": {members: map[string]string{"bin/tool": "tool", "bin/none": "none"},
			fault: "does not contain bin/none"},
		"link": {members: map[string]string{"bin/link": "link"}, fault: "not a regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := File{s.URL + "/a.tgz", s.URL + "/a.tgz.sha256"}
			err := client.SaveMembers(t.Context(), file, c.members, dir)
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Errorf("got %v, want %q", err, c.fault)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, "renamed"))
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("got %v, %v", info, err)
			}
			if entries, _ := os.ReadDir(dir); len(entries) != 2 {
				t.Errorf("got %v", entries)
			}
		})
	}
}

// pack returns a gzipped tar archive of files and a symbolic link.
func pack(t *testing.T, files map[string]string, link string) string {
	t.Helper()
	var buf bytes.Buffer
	zipped := gzip.NewWriter(&buf)
	w := tar.NewWriter(zipped)
	for name, text := range files {
		header := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(text))}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	header := tar.Header{Name: link, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}
	if err := w.WriteHeader(&header); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}
