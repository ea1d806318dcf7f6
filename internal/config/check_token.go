package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"kubeadm/internal/config/v1beta4"
	"kubeadm/internal/node"
)

func checkTokens(c *v1beta4.InitConfiguration) (errs field.ErrorList) {
	at := field.NewPath("bootstrapTokens")
	first := map[string]int{}
	for i := range c.BootstrapTokens {
		errs = append(errs, checkToken(at.Index(i), &c.BootstrapTokens[i])...)
		id, _, err := node.ParseToken(c.BootstrapTokens[i].Token)
		if err != nil {
			continue
		}
		if n, again := first[id]; again {
			errs = append(errs, invalid(at.Index(i).Child("token"), field.OmitValueType{}, fmt.Sprintf("has the ID of %s: the cluster keeps one token for each", at.Index(n)))...)
			continue
		}
		first[id] = i
	}
	return errs
}

// checkTokenExpiry finds tokens that have expired: the cluster removes them as soon as they are created.
func checkTokenExpiry(tokens []v1beta4.BootstrapToken, now time.Time) (errs field.ErrorList) {
	for i, t := range tokens {
		if t.Expires != nil && !now.IsZero() && t.Expires.Time.Before(now) {
			at := field.NewPath("bootstrapTokens").Index(i).Child("expires")
			errs = append(errs, invalid(at, t.Expires.UTC().Format(time.RFC3339), "has passed, so no machine can join with this token: name a later time, or a ttl in its place")...)
		}
	}
	return errs
}

// groupForm is what the API server accepts as a group of a bootstrap token.
var groupForm = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]$`)

func checkToken(at *field.Path, t *v1beta4.BootstrapToken) (errs field.ErrorList) {
	if t.Token != "" {
		_, _, err := node.ParseToken(t.Token)
		errs = append(errs, invalidSecret(at.Child("token"), err)...)
	}
	switch {
	case t.TTL != nil && t.Expires != nil:
		errs = append(errs, field.Invalid(at.Child("ttl"), t.TTL.Duration.String(), "ttl and expires exclude each other"))
	case t.TTL != nil && t.TTL.Duration < 0:
		errs = append(errs, field.Invalid(at.Child("ttl"), t.TTL.Duration.String(), "must not be negative; 0 means for ever"))
	}
	for i, usage := range t.Usages {
		errs = append(errs, checkOneOf(at.Child("usages").Index(i), usage, v1beta4.DefaultTokenUsages()...)...)
	}
	for i, group := range t.Groups {
		if !groupForm.MatchString(group) {
			errs = append(errs, field.Invalid(at.Child("groups").Index(i), group,
				fmt.Sprintf("must begin with system:bootstrappers: as %s does, and go on in a-z, 0-9, colon and dash", v1beta4.DefaultTokenGroup)))
		}
	}
	if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
		errs = append(errs, field.Invalid(at.Child("groups"), strings.Join(t.Groups, ","), "a token has groups only with the usage authentication"))
	}
	return errs
}
