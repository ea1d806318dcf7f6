// Package download fetches published release files over HTTPS and verifies their checksums. A file
// without a matching checksum is not kept.
package download

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// File is a published file.
type File struct {
	URL string
	// Checksums is the URL of the published SHA-256 checksum: either the bare checksum, or lines
	// with a checksum and a file name as sha256sum(1) prints them.
	Checksums string
}

// Client fetches files. Create it with NewClient.
type Client struct {
	http *http.Client
	// Stall is the time without data after which a transfer fails.
	Stall time.Duration
}

// NewClient returns a client that uses the transport and follows redirects to https URLs only.
func NewClient(transport http.RoundTripper) *Client {
	client := &http.Client{Transport: transport, CheckRedirect: checkRedirect}
	return &Client{Stall: time.Minute, http: client}
}

func checkRedirect(next *http.Request, via []*http.Request) error {
	if next.URL.Scheme != "https" {
		return fmt.Errorf("refusing a redirect to %s, which is not https", next.URL.Redacted())
	}
	if len(via) > 10 {
		return errors.New("more than 10 redirects")
	}
	return nil
}

// Save writes the file to a path that does not exist yet. If it fails, it leaves no file.
func (c *Client) Save(ctx context.Context, f File, to string) error {
	want, err := c.checksum(ctx, f)
	if err != nil {
		return fmt.Errorf("reading the checksum of %s: %w", f.URL, err)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	h := sha256.New()
	err = errors.Join(c.get(ctx, f.URL, io.MultiWriter(out, h)), out.Close())
	if got := hex.EncodeToString(h.Sum(nil)); err == nil && got != want {
		err = fmt.Errorf("its SHA-256 checksum is %s, and %s says %s", got, f.Checksums, want)
	}
	if err != nil {
		return fmt.Errorf("downloading %s: %w", f.URL, errors.Join(err, os.Remove(to)))
	}
	return nil
}

// checksum fetches the published checksum of the file, as 64 hex digits in lower case.
func (c *Client) checksum(ctx context.Context, f File) (string, error) {
	var text strings.Builder
	if err := c.get(ctx, f.Checksums, &limitedWriter{w: &text, left: 1 << 20}); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	for _, line := range lines {
		fields := strings.Fields(line)
		bare := len(fields) == 1 && len(lines) == 1
		named := len(fields) == 2 && path.Base(strings.TrimPrefix(fields[1], "*")) == path.Base(f.URL)
		if !bare && !named {
			continue
		}
		if sum, err := hex.DecodeString(fields[0]); err != nil || len(sum) != sha256.Size {
			return "", fmt.Errorf("%s: %q is not a SHA-256 checksum", f.Checksums, fields[0])
		}
		return strings.ToLower(fields[0]), nil
	}
	return "", fmt.Errorf("%s does not list %s", f.Checksums, path.Base(f.URL))
}

// get writes the body of a successful response to w.
func (c *Client) get(ctx context.Context, url string, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(c.Stall, func() { cancel(fmt.Errorf("no data for %s", c.Stall)) })
	defer stalled.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if req.URL.Scheme != "https" {
		return fmt.Errorf("%s is not an https URL", req.URL.Redacted())
	}
	response, err := c.http.Do(req)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the server responded %s", response.Status)
	}
	_, err = io.Copy(w, &progressReader{response.Body, func() { stalled.Reset(c.Stall) }})
	return errors.Join(err, context.Cause(ctx))
}

// progressReader calls a function after each read.
type progressReader struct {
	io.Reader
	read func()
}

func (p *progressReader) Read(data []byte) (int, error) {
	n, err := p.Reader.Read(data)
	p.read()
	return n, err
}

// limitedWriter fails when more bytes are written than are left.
type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(data []byte) (int, error) {
	if l.left -= len(data); l.left < 0 {
		return 0, errors.New("the file is too large for a list of checksums")
	}
	return l.w.Write(data)
}

// SaveMembers fetches a gzipped tar archive and writes some of its members to dir, as executable
// files. The keys of members are paths in the archive, the values file names in dir. A missing
// member is an error.
func (c *Client) SaveMembers(
	ctx context.Context, f File, members map[string]string, dir string,
) error {
	archive := filepath.Join(dir, ".download")
	if err := c.Save(ctx, f, archive); err != nil {
		return err
	}
	if err := errors.Join(extractMembers(archive, members, dir), os.Remove(archive)); err != nil {
		return fmt.Errorf("unpacking %s: %w", path.Base(f.URL), err)
	}
	return nil
}
