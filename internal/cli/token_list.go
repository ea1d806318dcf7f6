package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kubeadm/internal/engine"
	"kubeadm/internal/manifest"
	"kubeadm/internal/node"
	"kubeadm/internal/report"
	"kubeadm/internal/run"
	"kubeadm/internal/state"
)

func newTokenListCommand(p *program, o *clusterOptions) *cobra.Command {
	out := newOutput()
	c := &cobra.Command{
		Use:   "list",
		Short: "List bootstrap tokens",
		Long:  "List the cluster's bootstrap tokens, with their secrets, expiration times and usages.",
		Example: `  kubeadm token list

  # only the IDs
  kubeadm token list --output go-template='{{slice .token 0 6}}{{"\n"}}'`,
		Args: refuseArguments,
		RunE: func(c *cobra.Command, _ []string) error { return listTokens(p, c, o, &out) },
	}
	out.bind(c.Flags())
	return c
}

// listedToken is a result as an object.
type listedToken struct {
	metav1.TypeMeta `json:",inline"`
	Token           string       `json:"token"`
	Description     string       `json:"description,omitempty"`
	Expires         *metav1.Time `json:"expires,omitempty"`
	Usages          []string     `json:"usages,omitempty"`
	Groups          []string     `json:"groups,omitempty"`
}

func listTokens(p *program, c *cobra.Command, o *clusterOptions, out *output) (err error) {
	ctx, real := c.Context(), p.World()
	encode, err := out.encoder(ctx, real)
	if err != nil {
		return err
	}
	r, err := openClusterRun(ctx, p, run.Command{Name: "token"}, p.Out)
	if err != nil {
		return err
	}
	defer closeRun(r, &err)
	e := r.NewEnv(engine.Env{Local: apiLimits()}).Named("token")
	tokens, warnings, err := knownTokens(ctx, e.Reader(),
		clusterIdentity(ctx, p, c, o, real))
	if err != nil {
		return err
	}
	for _, text := range warnings {
		e.Warn("%s", text)
	}
	if encode == nil {
		return writeTokens(p.Out, tokens, real.Now())
	}
	var objects []any
	for _, t := range tokens {
		l := listedToken{TypeMeta: outputMeta("BootstrapToken"), Token: t.String(),
			Description: t.Description, Usages: t.Usages, Groups: t.Groups}
		if !t.Expires.IsZero() {
			l.Expires = &metav1.Time{Time: t.Expires}
		}
		objects = append(objects, l)
	}
	return encode(p.Out, objects)
}

// knownTokens are the tokens of the cluster, with a warning for each Secret that cannot be read.
func knownTokens(ctx context.Context, r state.Reader,
	as state.Identity) (tokens []node.BootstrapToken, warnings []string, err error) {
	found, err := r.List(ctx, state.Query{
		GVK: secretKind, Namespace: metav1.NamespaceSystem, As: as,
		FieldSelector: "type=" + string(bootstrapapi.SecretTypeBootstrapToken),
	})
	for _, u := range found {
		t, err := tokenOf(u.Object)
		if err != nil {
			warnings = append(warnings,
				fmt.Sprintf("Secret %s is not listed: %v", u.GetName(), err))
			continue
		}
		tokens = append(tokens, t)
	}
	return tokens, warnings, err
}

// tokenOf reads the Secret of a token. Its errors do not contain the secret.
func tokenOf(object map[string]any) (t node.BootstrapToken, err error) {
	var s corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, &s); err != nil {
		return t, err
	}
	text := func(key string) string { return string(s.Data[key]) }
	t.ID, t.Secret, err = node.ParseToken(text(bootstrapapi.BootstrapTokenIDKey) + "." +
		text(bootstrapapi.BootstrapTokenSecretKey))
	if err != nil {
		return t, fmt.Errorf("it has no valid token: %w", err)
	}
	if s.Name != manifest.TokenSecretName(t.ID) {
		return t, fmt.Errorf("its name does not match the token ID %q", t.ID)
	}
	t.Description = text(bootstrapapi.BootstrapTokenDescriptionKey)
	if end := text(bootstrapapi.BootstrapTokenExpirationKey); end != "" {
		if t.Expires, err = time.Parse(time.RFC3339, end); err != nil {
			return t, fmt.Errorf("its expiration is not a valid time: %w", err)
		}
	}
	for key, value := range s.Data {
		if usage, ok := strings.CutPrefix(key, bootstrapapi.BootstrapTokenUsagePrefix); ok &&
			string(value) == "true" {
			t.Usages = append(t.Usages, usage)
		}
	}
	slices.Sort(t.Usages)
	if groups := text(bootstrapapi.BootstrapTokenExtraGroupsKey); groups != "" {
		t.Groups = strings.Split(groups, ",")
	}
	return t, nil
}

// writeTokens writes a table, or nothing if there is no token. The columns are as wide as upstream's,
// where each row after the first is aligned alone: scripts cut them.
func writeTokens(out io.Writer, tokens []node.BootstrapToken, now time.Time) error {
	if len(tokens) == 0 {
		return nil
	}
	w := report.NewTable(out, 10, "TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS")
	for _, t := range tokens {
		ttl, expires := "<forever>", "<never>"
		if !t.Expires.IsZero() {
			ttl, expires = duration.ShortHumanDuration(t.Expires.Sub(now)),
				t.Expires.UTC().Format(time.RFC3339)
		}
		const none = "<none>"
		w.Row(t.String(), fmt.Sprintf("%-9s", ttl), expires,
			fmt.Sprintf("%-22s", cmp.Or(strings.Join(t.Usages, ","), none)),
			fmt.Sprintf("%-56s", cmp.Or(t.Description, none)),
			cmp.Or(strings.Join(t.Groups, ","), none))
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}
