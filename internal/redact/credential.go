package redact

import (
	"encoding/base64"
	"strings"
)

// Forms of credentials that say by themselves what they are.
var (
	// A private key as PEM, also in one line with "\n". One that is cut off ends with the text.
	privateKeyForm = lazily(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----|$)`)
	// PEM in base64.
	encodedPEMForm = lazily(`LS0tLS1CRUdJTi[A-Za-z0-9+/=]*`)
	// A JSON web token (RFC 7519), such as that of a ServiceAccount. A signature without its payload, as
	// in ConfigMap cluster-info, is public.
	jwtForm = lazily(`eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*`)
	// Credentials whose issuers give them a prefix, and the addresses of webhooks.
	issuedForm = lazilyWith(issuedWords, strings.Join([]string{
		`(?:gh[pousr]_|github_pat_)[A-Za-z0-9_-]{6,}`,
		`gl(?:pat|dt|rt|rtr|cbt|ptt|ft|imt|oas|soat|agent|ffct)-[A-Za-z0-9_.=-]{6,}`,
		`xox[a-z]-[A-Za-z0-9-]{6,}|xapp-[A-Za-z0-9-]{6,}`, // Slack
		`hooks\.slack\.com/[a-z]+/[A-Za-z0-9/_-]+|discord(?:app)?\.com/api/webhooks/[A-Za-z0-9/_-]+`,
		`\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{8,}`,                                       // AWS
		`AIza[A-Za-z0-9_-]{12,}|\bya29\.[A-Za-z0-9_-]{6,}|GOCSPX-[A-Za-z0-9_-]{6,}`,   // Google
		`\bhv[sbr]\.[A-Za-z0-9_-]{6,}|\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{10,}`, // HashiCorp
		`\bsk-[a-z]+(?:-[A-Za-z0-9_]+)*-[A-Za-z0-9_-]{16,}|\bsk-[A-Za-z0-9_-]{16,}`,
		`\b(?:[spr]k_(?:live|test)|whsec)_[A-Za-z0-9_-]{6,}`, // Stripe
		`\bnpm_[A-Za-z0-9]{16,}|\bpypi-Ag[A-Za-z0-9_-]{14,}|dckr_[a-z]+_[A-Za-z0-9_-]{6,}`,
		`\bdo[opr]_v1_[0-9a-f]{16,}|\bSG\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}`,
		`\bhf_[A-Za-z0-9]{16,}|\bgl(?:c|sa)_[A-Za-z0-9_=+/-]{8,}|\bdapi[0-9a-f]{32}`,
		`\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{16,}|\bNRAK-[A-Z0-9]{16,}|\btskey-[a-z]+-[A-Za-z0-9-]{10,}`,
		`AGE-SECRET-KEY-[A-Z0-9-]{10,}|\bK10[0-9a-f]{32,}::[A-Za-z0-9:_-]+`, // age, k3s
		`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{30,}`,                                // Telegram
	}, "|"))
	// Hashes of passwords, as htpasswd and shadow files have them.
	passwordHashForm = lazilyWith([]string{"$", "{s", "{m", "{c"}, `\$(?:2[abxy]?|apr1|[1567yPH]|gy|md5|sha1|argon2[a-z]*|scrypt|pbkdf2[a-z0-9-]*)\$[./A-Za-z0-9$=,+-]{8,}`+
		`|\{(?:S?SHA(?:256|512)?|S?MD5|CRYPT)\}[A-Za-z0-9+/=$.]{8,}`)
	// What a header of HTTP begins with, in a request, in JSON or as Go prints it.
	headerForm = lazilyWith([]string{"authorization", "cookie", "x-"}, `(?i)(?:`+headerNames+`|\bx-[a-z-]*(?:token|key|secret|signature|password))`+
		`(?:\\*["'])?[ \t]*[:=](?:`+nextItem+`|[ \t]*)`)
	headerValue = lazily(`^(?:\[\]string\{[^}\n]*\}?|\[[^\]\n]*\]?|(?:=\\*"[^"\n]*"|[^\n"'\\{])+)`)
	// What follows "authorization" where it is no header: a mode, or a result.
	authorizationMode = lazily(`^(?:AlwaysAllow|AlwaysDeny|Webhook|RBAC|Node|ABAC|true|false|null|nil|enabled|disabled|denied|failed|error)\b`)
	// Credentials of a scheme of HTTP, without their header.
	schemeForm = lazilyWith([]string{"bearer", "basic", "negotiate"}, `(?i)\b(bearer|basic|negotiate)[ \t]+([A-Za-z0-9._~+/=-]{6,})`)
	plainWord  = lazily(`^[A-Za-z]?[a-z]+[.]?$`)
	// A parameter of a URL. JSON may write "&" as an escape.
	parameterForm = lazilyWith([]string{"?", "&", ";", "#", `\u0026`, "%26", "%3f"}, `(?i)((?:[?&;#]|\\u0026|%26|%3F)[a-z0-9_.~-]*(?:sig|signature|key|key-?id|token|secret|password|passwd|passphrase|pwd|pass|auth|credentials?|jwt|assertion|code|session|sid)(?:=|%3D))[^&\s"'<>#\\]+`)
)

// issuedWords are parts of all that issuedForm matches, in lower case.
var issuedWords = []string{"gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glrtr-", "glcbt-", "glptt-",
	"glft-", "glimt-", "gloas-", "glsoat-", "glagent-", "glffct-", "xox", "xapp-", "hooks.slack.com", "discord", "akia", "asia", "abia",
	"acca", "aiza", "ya29.", "gocspx-", "hvs.", "hvb.", "hvr.", ".atlasv1.", "sk-", "k_live_", "k_test_", "whsec_", "npm_", "pypi-ag",
	"dckr_", "_v1_", "sg.", "hf_", "glc_", "glsa_", "dapi", "shpat_", "shpca_", "shppa_", "shpss_", "nrak-", "tskey-", "age-secret-key-",
	"k10", ":aa"}

// headerNames are the headers that authenticate whoever sends them.
const headerNames = `(?:proxy-)?authorization|(?:set-)?cookie2?`

// hideCredentials hides what is a credential wherever it stands.
func hideCredentials(text string) string {
	text = privateKeyForm().ReplaceAllString(text, hidden)
	text = encodedPEMForm().ReplaceAllStringFunc(text, func(found string) string {
		// one that is cut off is decoded up to its end
		data, _ := base64.RawStdEncoding.DecodeString(strings.TrimRight(found, "="))
		if strings.Contains(string(data), "PRIVATE KEY") {
			return hidden
		}
		return found
	})
	text = jwtForm().ReplaceAllString(text, hidden)
	text = issuedForm().ReplaceAllString(text, hidden)
	text = passwordHashForm().ReplaceAllString(text, hidden)
	text = parameterForm().ReplaceAllString(text, "$1"+hidden)
	text = hideHeaders(text)
	return schemeForm().ReplaceAllStringFunc(text, func(found string) string {
		scheme, value, _ := strings.Cut(strings.ReplaceAll(found, "\t", " "), " ")
		value = strings.TrimSpace(value)
		isWord := plainWord().MatchString(value)
		if strings.EqualFold(scheme, "bearer") { // a token may consist of letters
			lower := strings.ToLower(value)
			isWord = isWord && (strings.HasPrefix(lower, "token") || strings.HasPrefix(lower, "auth"))
		}
		if isWord {
			return found
		}
		return scheme + " " + hidden
	})
}

// hideHeaders hides the values of headers that authenticate, whatever their scheme.
func hideHeaders(text string) string {
	var clean strings.Builder
	done := 0
	for _, at := range headerForm().FindAllStringIndex(text, -1) {
		begin := at[1]
		// What is no credential is seen by its first word: a line may have thousands of them.
		if begin < done || authorizationMode().MatchString(text[begin:min(len(text), begin+longName)]) {
			continue
		}
		value := headerValue().FindString(text[begin:])
		if quote := quoteForm().FindString(text[begin:]); quote != "" {
			value = text[begin : begin+lengthOfString(text[begin:], quote)]
		}
		if strings.TrimSpace(value) == "" {
			continue
		}
		clean.WriteString(text[done:begin] + hidden)
		done = begin + len(strings.TrimRight(value, " \t\r"))
	}
	return clean.String() + text[done:]
}
