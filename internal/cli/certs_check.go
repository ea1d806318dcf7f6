package cli

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kubeadm/internal/certstore"
	"kubeadm/internal/flow"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

func (p *program) certsCheck() *cobra.Command {
	o, out := newCertsOptions(), newOutput()
	c := &cobra.Command{
		Use:   "check-expiration",
		Short: "Tell when certificates end",
		Long: `Tell of each certificate of this control plane, and of each certificate authority, when it ends. One is managed
externally if the key of its authority is not on this machine. Certificates of kubelets are not
listed: they renew them themselves.`,
		Example: `  kubeadm certs check-expiration

  # for programs
  kubeadm certs check-expiration --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return p.checkExpiration(c, o, &out) },
	}
	o.values().bind(c.Flags())
	out.values().bind(c.Flags())
	return c
}

// expirations is the result as an object.
type expirations struct {
	metav1.TypeMeta `json:",inline"`
	Certificates    []expiration `json:"certificates"`
	Authorities     []expiration `json:"certificateAuthorities"`
}

// expiration is when one certificate ends.
type expiration struct {
	Name     string       `json:"name"`
	Date     *metav1.Time `json:"expirationDate"`
	Residual int64        `json:"residualTime"` // seconds
	External bool         `json:"externallyManaged"`
	CA       string       `json:"caName,omitempty"`
	Missing  bool         `json:"missing"`
}

func (p *program) checkExpiration(c *cobra.Command, o *certsOptions, out *output) (err error) {
	ctx, real := c.Context(), p.World()
	encode, err := out.encoder(ctx, real)
	if err != nil {
		return err
	}
	r, err := p.openRun(ctx, run.Command{Name: "certs", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	n, warnings, err := p.readClusterOrConfig(c, o, r)
	printWarnings(p.newText(false), warnings)
	if err != nil {
		return err
	}
	found, err := expirationsOf(ctx, real, n)
	if err != nil {
		return err
	}
	for _, doubt := range keyPairWarnings(ctx, real, n) {
		p.newText(false).Emit(flow.Event{Kind: flow.Warned, Phase: "certs", Text: doubt})
	}
	if encode != nil {
		return encode(p.Out, []any{found})
	}
	return found.write(p.Out)
}

// expirationsOf looks at all certificates that a control plane of this kind has.
func expirationsOf(ctx context.Context, r state.Reader, n *node.Node) (expirations, error) {
	all := expirations{TypeMeta: outputMeta("CertificateExpirationInfo")}
	local, _ := node.LocalEtcd(n)
	for _, c := range pki.Renewables() {
		if c.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadRenewable(ctx, r, n.Paths, c)
		e := newExpiration(c.Name, cert, r.Now())
		if err == nil && cert != nil {
			ca, _ := pki.ProfileOf(c.Issuer)
			e.CA = ca.Name
			e.External, err = certstore.IsExternalCA(ctx, r, n.Paths, ca)
		}
		if err != nil {
			return all, err
		}
		all.Certificates = append(all.Certificates, e)
	}
	var err error
	all.Authorities, err = expirationsOfCAs(ctx, r, n)
	return all, err
}

// keyPairWarnings tells of each certificate whose key is not its own, and what to do about it. Those of authorities that are kept
// elsewhere were looked at before, for they are not for this machine to mend.
func keyPairWarnings(ctx context.Context, r state.Reader, n *node.Node) (doubts []string) {
	local, _ := node.LocalEtcd(n)
	for _, c := range pki.Renewables() {
		issuer, _ := pki.ProfileOf(c.Issuer)
		if elsewhere, err := certstore.IsExternalCA(ctx, r, n.Paths, issuer); elsewhere || err != nil || c.LocalEtcdOnly() && !local {
			continue
		}
		if err := certstore.CheckRenewableKey(ctx, r, n.Paths, c); err != nil {
			doubts = append(doubts, fmt.Sprintf("%v: whoever uses them fails when it starts; make both anew: kubeadm certs renew %s", err, c.Name))
		}
	}
	return doubts
}

func expirationsOfCAs(ctx context.Context, r state.Reader, n *node.Node) ([]expiration, error) {
	var all []expiration
	local, _ := node.LocalEtcd(n)
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && !local {
			continue
		}
		found, err := certstore.ReadPair(ctx, r, n.Paths, p.Base)
		if err != nil {
			return nil, err
		}
		e := newExpiration(p.Name, nil, r.Now())
		if found.Certificate != nil {
			ca, err := pki.Stored{Certificate: found.Certificate}.CA() // when it ends is not for its key to tell
			if err != nil {
				return nil, problem.New("reading "+n.Paths.Cert(p.Base), err, "put back a good copy of the file")
			}
			e = newExpiration(p.Name, ca.Certificate, r.Now())
			e.External = found.Key == nil
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b expiration) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// newExpiration is when the certificate ends; nil stands for one that is missing.
func newExpiration(name string, cert *x509.Certificate, now time.Time) expiration {
	if cert == nil {
		return expiration{Name: name, Missing: true}
	}
	return expiration{Name: name, Date: &metav1.Time{Time: cert.NotAfter}, Residual: int64(cert.NotAfter.Sub(now) / time.Second)}
}

// write shows two tables, for people.
func (x expirations) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "CERTIFICATE\tEXPIRES\tRESIDUAL TIME\tCERTIFICATE AUTHORITY\tEXTERNALLY MANAGED")
	for _, e := range x.Certificates {
		if e.Missing {
			fmt.Fprintf(w, "!MISSING! %s\t\t\t\t\n", e.Name)
			continue
		}
		fmt.Fprintf(w, "%s\t%-8s\n", strings.Join([]string{e.Name, e.date(), e.residual(), e.CA}, "\t"), yesOrNo(e.External))
	}
	fmt.Fprintln(w, "\nCERTIFICATE AUTHORITY\tEXPIRES\tRESIDUAL TIME\tEXTERNALLY MANAGED")
	for _, e := range x.Authorities {
		if e.Missing {
			fmt.Fprintf(w, "!MISSING! %s\t\t\t\n", e.Name)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%-8s\n", e.Name, e.date(), e.residual(), yesOrNo(e.External))
	}
	return w.Flush()
}

func (e expiration) date() string { return e.Date.UTC().Format("Jan 02, 2006 15:04 MST") }

func (e expiration) residual() string {
	return duration.HumanDuration(time.Duration(e.Residual) * time.Second)
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
