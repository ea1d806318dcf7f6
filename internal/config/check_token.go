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

// groupForm is the form of a bootstrap token group that the API server accepts, with at most
// maxGroupLength characters.
var groupForm = regexp.MustCompile(`^system:bootstrappers:[a-z0-9:-]*[a-z0-9]$`)

const maxGroupLength = len("system:bootstrappers:") + 256

func checkTokens(c *v1beta4.InitConfiguration) (errs field.ErrorList) {
	list := field.NewPath("bootstrapTokens")
	first := map[string]int{} // index of the first token with an ID
	for i, t := range c.BootstrapTokens {
		at := list.Index(i)
		id, _, wrongToken := node.ParseToken(t.Token)
		if t.Token != "" {
			errs = append(errs, invalidSecret(at.Child("token"), wrongToken)...)
		}
		switch {
		case t.TTL != nil && t.Expires != nil:
			errs = append(errs, field.Invalid(at.Child("ttl"), t.TTL.Duration.String(),
				"ttl and expires are mutually exclusive: set only one of them"))
		case t.TTL != nil && t.TTL.Duration < 0:
			errs = append(errs, field.Invalid(at.Child("ttl"), t.TTL.Duration.String(),
				"must not be negative; 0 means that the token never expires"))
		}
		for j, usage := range t.Usages {
			errs = append(errs, checkOneOf(at.Child("usages").Index(j), usage,
				v1beta4.DefaultTokenUsages()...)...)
		}
		for j, group := range t.Groups {
			if len(group) > maxGroupLength || !groupForm.MatchString(group) {
				errs = append(errs, field.Invalid(at.Child("groups").Index(j), group,
					fmt.Sprintf("must begin with system:bootstrappers: and consist of a-z, 0-9, colons and dashes, such as %s", v1beta4.DefaultTokenGroup)))
			}
		}
		if len(t.Groups) > 0 && !slices.Contains(t.Usages, "authentication") {
			errs = append(errs, field.Invalid(at.Child("groups"), strings.Join(t.Groups, ","),
				"groups are only allowed with the usage authentication"))
		}
		if n, again := first[id]; again && wrongToken == nil {
			errs = append(errs, invalid(at.Child("token"), field.OmitValueType{},
				fmt.Sprintf("has the same ID as %s: IDs must be unique", list.Index(n)))...)
		} else if wrongToken == nil {
			first[id] = i
		}
	}
	return errs
}

// checkTokenExpiry finds tokens that have expired: the cluster deletes them as soon as they are
// created.
func checkTokenExpiry(tokens []v1beta4.BootstrapToken, now time.Time) (errs field.ErrorList) {
	for i, t := range tokens {
		if t.Expires != nil && !now.IsZero() && t.Expires.Time.Before(now) {
			at := field.NewPath("bootstrapTokens").Index(i).Child("expires")
			errs = append(errs, invalid(at, t.Expires.UTC().Format(time.RFC3339),
				"is in the past, so no machine can join with this token: set a later time, or set ttl instead")...)
		}
	}
	return errs
}
