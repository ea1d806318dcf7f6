package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"kubeadm/internal/certstore"
	"kubeadm/internal/flag"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/problem"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

func newCheckExpirationCommand(p *program) *cobra.Command {
	o := &expirationOptions{output: newOutput()}
	c := &cobra.Command{
		Use:   "check-expiration",
		Short: "Show when certificates expire",
		Long: `Show when this control plane node's certificates and certificate authorities expire. A
certificate is externally managed if the key of its CA is not on this machine.

Kubelets rotate their own certificates, so these are shown only with --served. That flag also shows which certificate
each component uses: after a renewal, it may differ from the one on disk.`,
		Example: `  kubeadm certs check-expiration

  # for monitoring: exit code 2 if a certificate expires in the next 30 days
  kubeadm certs check-expiration --within 30d

  # include the certificates in use and the kubelet's own
  kubeadm certs check-expiration --served

  # machine-readable
  kubeadm certs check-expiration --output json`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			return checkExpiration(p, c, o)
		},
	}
	o.bind(c)
	o.output.bind(c.Flags())
	targetsOf(o).bind(c.Flags(), flag.Within, flag.Served)
	return c
}

// expirations is the result as an object.
type expirations struct {
	metav1.TypeMeta `json:",inline"`
	Certificates    []expiration `json:"certificates"`
	Authorities     []expiration `json:"certificateAuthorities"`
	Others          []expiration `json:"otherCertificates,omitempty"` // only with --served
	Served          []served     `json:"served,omitempty"`            // only with --served
	withServed      bool
	unreadable      []error // why rows are incomplete
}

// expirationOptions are the flags of "certs check-expiration".
type expirationOptions struct {
	certsOptions
	output output
	Within *time.Duration `flag:"within"`
	Served bool           `flag:"served"`
}

// expiration is when one certificate expires.
type expiration struct {
	Name     string       `json:"name"`
	Date     *metav1.Time `json:"expirationDate"`
	Residual int64        `json:"residualTime"` // seconds
	External bool         `json:"externallyManaged"`
	CA       string       `json:"caName,omitempty"`
	Missing  bool         `json:"missing"`
	Error    string       `json:"error,omitempty"` // why the file cannot be read
}

func checkExpiration(p *program, c *cobra.Command, o *expirationOptions) (err error) {
	ctx, real := c.Context(), p.World()
	encode, err := o.output.encoder(ctx, real)
	if err != nil {
		return err
	}
	r, err := run.Open(ctx, runHost(p), run.Command{Name: "certs", Unlocked: true})
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	settings, err := readClusterOrConfig(p, c, &o.certsOptions, r)
	warn(p, "config", settings.warnings...)
	if err == nil && encode == nil {
		_, err = io.WriteString(p.Out, settings.readingText())
	}
	if err != nil {
		return err
	}
	n := settings.Node
	found, err := expirationsOf(ctx, real, n)
	if err != nil {
		return err
	}
	if found.withServed = o.Served; found.withServed {
		if err := completeMachine(ctx, r, n); err != nil {
			return err
		}
		if err := found.addServed(ctx, r, n); err != nil {
			return err
		}
	}
	for _, warning := range keyPairWarnings(ctx, real, n) {
		warn(p, "certs", warning)
	}
	if encode != nil {
		err = encode(p.Out, []any{found})
	} else {
		err = found.write(p.Out)
	}
	if err != nil {
		return err
	}
	if o.Within != nil {
		err = found.checkWithin(*o.Within)
	}
	return errors.Join(append([]error{err}, found.unreadable...)...)
}

// uploadConfigCommand stores the configuration in the cluster again.
const uploadConfigCommand = "kubeadm init phase upload-config kubeadm --config your-config-file"

// readingText says where the settings come from. Upstream prints these lines, too: scripts skip them by
// their number.
func (c certsConfig) readingText() string {
	if !c.asked {
		return ""
	}
	text := `[check-expiration] Reading configuration from the "kubeadm-config" ConfigMap in namespace "kube-system"...
` + "[check-expiration] Use '" + uploadConfigCommand + "' to re-upload it.\n"
	if !c.answered {
		text += "[check-expiration] Error reading configuration from the Cluster. Falling back to default configuration\n"
	}
	return text + "\n"
}

const restartHint = "restart the components that use an old certificate: kubeadm certs renew all --restart"

// checkWithin is an error with exit code problem.ExitFound if a certificate expires within that time. It is
// another error if one is missing, or if a component uses one from before a renewal that it does not
// show: then it is not known when what is in use expires.
func (x expirations) checkWithin(limit time.Duration) error {
	var missing, soon, unknown, hints []string
	hint := func(text string) {
		if !slices.Contains(hints, text) {
			hints = append(hints, text)
		}
	}
	for i, e := range slices.Concat(x.Certificates, x.Others, x.Authorities) {
		isCA := i >= len(x.Certificates)+len(x.Others)
		isOther := i >= len(x.Certificates) && !isCA
		switch {
		case e.Missing && e.Name != "super-admin.conf": // only the first control plane has that
			missing = append(missing, e.Name)
		case e.Missing, e.Error != "", time.Duration(e.Residual)*time.Second > limit:
		default:
			date, _ := e.cells()
			soon = append(soon, fmt.Sprintf("%s (%s)", e.Name, date))
			switch {
			case isCA:
				hint("a certificate is not valid after its CA has expired: replace the CA before then")
			case e.Name == kubeletServer:
				hint("renew a self-signed kubelet-server: remove kubelet.crt and kubelet.key from /var/lib/kubelet/pki, and restart the kubelet")
				hint("renew a kubelet-server of serverTLSBootstrap: kubeadm certs approve-kubelet-serving")
			case isOther && !e.External:
				hint("renew the certificate of a kubelet that does not rotate it: kubeadm certs renew kubelet.conf")
			case e.External:
				hint("get new certificates from the external CA")
			default:
				hint("renew the certificates: kubeadm certs renew all --restart")
			}
		}
	}
	for _, s := range x.Served {
		if s.Date != nil && !s.IsCurrent && time.Duration(s.Residual)*time.Second <= limit {
			date, _ := expiration{Date: s.Date}.cells()
			soon = append(soon, fmt.Sprintf("%s at %s (%s)", s.Component, s.Address, date))
			hint(restartHint)
		}
		if s.isUnknown {
			unknown = append(unknown, fmt.Sprintf("%s (%s)", s.Component, s.Problem))
		}
	}
	var errs []error
	if len(soon) > 0 {
		errs = append(errs, fmt.Errorf("expired, or will expire within %s: %s",
			duration.HumanDuration(limit), strings.Join(soon, ", ")))
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("not found: %s", strings.Join(missing, ", ")))
	}
	if len(missing) > 0 && len(soon) == 0 {
		hint("run the command on a control plane node, or set --cert-dir to its certificates")
	}
	if len(unknown) > 0 {
		errs = append(errs, fmt.Errorf("cannot tell when the certificate in use expires: %s",
			strings.Join(unknown, ", ")))
		hint(restartHint)
	}
	if len(errs) == 0 {
		return nil
	}
	err := problem.New(errors.Join(errs...), hints...)
	if len(soon) > 0 {
		err.Code = problem.ExitFound
	}
	return err
}

// expirationsOf reads all certificates and CAs that a control plane of this kind has. One that cannot
// be read spoils its own row only.
func expirationsOf(ctx context.Context, r state.Reader, n *node.Node) (expirations, error) {
	all := expirations{TypeMeta: outputMeta("CertificateExpirationInfo")}
	local, _ := node.HasLocalEtcd(n)
	reported := map[string]bool{} // the CAs about which there is an error
	for _, c := range pki.Renewables() {
		if c.LocalEtcdOnly() && !local {
			continue
		}
		cert, err := certstore.ReadCertificate(ctx, r, n.Paths, c)
		if err != nil {
			all.unreadable = append(all.unreadable, err)
		}
		if errors.As(err, new(pki.NotEmbeddedError)) {
			continue // it has no certificate that could expire
		}
		e := newExpiration(c.Name, cert, err, r.Now())
		if cert != nil {
			ca, _ := pki.ProfileOf(c.Issuer)
			e.CA = ca.Name
			e.External, err = certstore.IsExternalCA(ctx, r, n.Paths, ca)
			if err != nil && !isBadKey(err) && !reported[ca.Name] { // keyPairWarnings reports a bad key
				reported[ca.Name] = true
				all.unreadable = append(all.unreadable, err)
			}
		}
		all.Certificates = append(all.Certificates, e)
	}
	for _, p := range pki.Profiles() {
		if !p.IsCA() || p.LocalEtcdOnly() && !local {
			continue
		}
		e, err := authorityExpiration(ctx, r, n, p)
		if err != nil && !reported[p.Name] {
			all.unreadable = append(all.unreadable, err)
		}
		all.Authorities = append(all.Authorities, e)
	}
	slices.SortFunc(all.Authorities,
		func(a, b expiration) int { return strings.Compare(a.Name, b.Name) })
	return all, context.Cause(ctx)
}

// authorityExpiration is when a CA expires, which does not depend on its key.
func authorityExpiration(ctx context.Context, r state.Reader, n *node.Node,
	p pki.Profile) (expiration, error) {
	found, err := certstore.ReadPair(ctx, r, n.Paths, p.Base)
	var ca pki.CA
	if err == nil && found.Certificate != nil {
		ca, err = pki.StoredPair{Certificate: found.Certificate}.ParseCA()
		if err != nil {
			err = problem.During("reading "+n.Paths.Cert(p.Base), err, "restore the file from a backup")
		}
	}
	e := newExpiration(p.Name, ca.Certificate, err, r.Now())
	e.External = found.Certificate != nil && found.Key == nil
	return e, err
}

// isBadKey reports whether an error is that of a key file, with a good certificate.
func isBadKey(err error) bool {
	return errors.Is(err, certstore.ErrKeyMismatch) || errors.Is(err, certstore.ErrUnusableKey)
}

// keyPairWarnings warns about each CA and certificate that does not match its key. Certificates of an
// external CA are left out: this machine cannot renew them.
func keyPairWarnings(ctx context.Context, r state.Reader, n *node.Node) (warnings []string) {
	local, _ := node.HasLocalEtcd(n)
	for _, ca := range pki.Profiles() {
		if !ca.IsCA() || ca.LocalEtcdOnly() && !local {
			continue
		}
		if _, err := certstore.IsExternalCA(ctx, r, n.Paths, ca); isBadKey(err) {
			warnings = append(warnings, fmt.Sprintf(
				"%v: certificates of this CA cannot be renewed; restore its key from a backup", err))
		}
	}
	for _, c := range pki.Renewables() {
		issuer, _ := pki.ProfileOf(c.Issuer)
		if external, err := certstore.IsExternalCA(ctx, r, n.Paths, issuer); external ||
			err != nil || c.LocalEtcdOnly() && !local {
			continue
		}
		if _, err := certstore.ReadRenewable(ctx, r, n.Paths, c); err != nil {
			continue // an error of the command
		}
		if err := certstore.CheckRenewableKey(ctx, r, n.Paths, c); err != nil {
			warnings = append(warnings,
				fmt.Sprintf("%v: components that use them cannot start; to renew both: kubeadm certs renew %s", err, c.Name))
		}
	}
	return warnings
}

// newExpiration is when the certificate expires. Without a certificate and an error it is missing.
func newExpiration(name string, cert *x509.Certificate, err error, now time.Time) expiration {
	switch {
	case err != nil:
		return expiration{Name: name, Error: err.Error()}
	case cert == nil:
		return expiration{Name: name, Missing: true}
	}
	return expiration{Name: name, Date: &metav1.Time{Time: cert.NotAfter},
		Residual: int64(cert.NotAfter.Sub(now) / time.Second)}
}

// write prints two tables.
func (x expirations) write(out io.Writer) error {
	w := report.NewTable(out, 10, "CERTIFICATE", "EXPIRES", "RESIDUAL TIME", "CERTIFICATE AUTHORITY",
		"EXTERNALLY MANAGED")
	for _, e := range x.Certificates {
		e.writeRow(w)
	}
	w.Section("CERTIFICATE AUTHORITY", "EXPIRES", "RESIDUAL TIME", "EXTERNALLY MANAGED")
	for _, e := range x.Authorities {
		date, residual := e.cells()
		w.Row(e.label(), date, residual, e.managed())
	}
	if err := w.Flush(); err != nil || !x.withServed {
		return err
	}
	return x.writeServed(out)
}

// writeRow prints a row of five columns.
func (e expiration) writeRow(w *report.Table) {
	date, residual := e.cells()
	w.Row(e.label(), date, residual, e.CA, e.managed())
}

// label is the name, marked if there is no certificate.
func (e expiration) label() string {
	switch {
	case e.Error != "":
		return "!UNREADABLE! " + e.Name
	case e.Missing:
		return "!MISSING! " + e.Name
	}
	return e.Name
}

// managed is the last cell of a row.
func (e expiration) managed() string {
	if e.Date == nil {
		return ""
	}
	return fmt.Sprintf("%-8s", yesOrNo(e.External))
}

// cells returns the texts of two columns of a table.
func (e expiration) cells() (date, residual string) {
	if e.Date == nil {
		return "", ""
	}
	return e.Date.UTC().Format("Jan 02, 2006 15:04 MST"),
		duration.HumanDuration(time.Duration(e.Residual) * time.Second)
}

func yesOrNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
