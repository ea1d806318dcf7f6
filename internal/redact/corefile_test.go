package redact

import (
	"strings"
	"testing"
)

func TestCorefile(t *testing.T) {
	const text = "data:\n  Corefile: |\n    .:53 {\n        route53 example.org.:Z1 {\n            aws_access_key ID S3cr3t\n        }\n" +
		"        etcd {\n            credentials user S3cr3t\n        }\n        azure zone {\n            secret \"S3cr3t word\"\n        }\n        cache 30\n    }\n"
	got := Corefile(text)
	if strings.Contains(got, "S3cr3t") || strings.Count(got, hidden) != 3 || !strings.Contains(got, "cache 30") {
		t.Error(got)
	}
}
