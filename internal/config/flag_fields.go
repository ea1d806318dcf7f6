package config

import (
	"fmt"
	"slices"
	"strings"

	"kubeadm/internal/config/v1beta4"
)

// flagField says which field of a file a flag stands for. An empty flag is the
// argument of the command.
type flagField struct{ flag, kind, path string }

// spoken is how a user knows the flag.
func (f flagField) spoken() string {
	if f.flag == "" {
		return "argument HOST:PORT"
	}
	return "--" + f.flag
}

func initFields() []flagField {
	return []flagField{
		{"apiserver-advertise-address", v1beta4.KindInit, "localAPIEndpoint.advertiseAddress"},
		{"apiserver-bind-port", v1beta4.KindInit, "localAPIEndpoint.bindPort"},
		{"apiserver-cert-extra-sans", v1beta4.KindCluster, "apiServer.certSANs"},
		{"cert-dir", v1beta4.KindCluster, "certificatesDir"},
		{"certificate-key", v1beta4.KindInit, "certificateKey"},
		{"control-plane-endpoint", v1beta4.KindCluster, "controlPlaneEndpoint"},
		{"cri-socket", v1beta4.KindInit, "nodeRegistration.criSocket"},
		{"feature-gates", v1beta4.KindCluster, "featureGates"},
		{"ignore-preflight-errors", v1beta4.KindInit, "nodeRegistration.ignorePreflightErrors"},
		{"image-repository", v1beta4.KindCluster, "imageRepository"},
		{"kubernetes-version", v1beta4.KindCluster, "kubernetesVersion"},
		{"node-name", v1beta4.KindInit, "nodeRegistration.name"},
		{"patches", v1beta4.KindInit, "patches.directory"},
		{"pod-network-cidr", v1beta4.KindCluster, "networking.podSubnet"},
		{"service-cidr", v1beta4.KindCluster, "networking.serviceSubnet"},
		{"service-dns-domain", v1beta4.KindCluster, "networking.dnsDomain"},
		{"token", v1beta4.KindInit, "bootstrapTokens[0].token"},
		{"token-ttl", v1beta4.KindInit, "bootstrapTokens[0].ttl"},
	}
}

func joinFields() []flagField {
	return []flagField{
		{"apiserver-advertise-address", v1beta4.KindJoin, "controlPlane.localAPIEndpoint.advertiseAddress"},
		{"apiserver-bind-port", v1beta4.KindJoin, "controlPlane.localAPIEndpoint.bindPort"},
		{"certificate-key", v1beta4.KindJoin, "controlPlane.certificateKey"},
		{"control-plane", v1beta4.KindJoin, "controlPlane"},
		{"cri-socket", v1beta4.KindJoin, "nodeRegistration.criSocket"},
		{"", v1beta4.KindJoin, "discovery"},
		{"", v1beta4.KindJoin, "discovery.bootstrapToken.apiServerEndpoint"},
		{"discovery-file", v1beta4.KindJoin, "discovery.file.kubeConfigPath"},
		{"token", v1beta4.KindJoin, "discovery.bootstrapToken.token"},
		{"discovery-token", v1beta4.KindJoin, "discovery.bootstrapToken.token"},
		{"discovery-token-ca-cert-hash", v1beta4.KindJoin, "discovery.bootstrapToken.caCertHashes"},
		{"discovery-token-unsafe-skip-ca-verification", v1beta4.KindJoin, "discovery.bootstrapToken.unsafeSkipCAVerification"},
		{"ignore-preflight-errors", v1beta4.KindJoin, "nodeRegistration.ignorePreflightErrors"},
		{"node-name", v1beta4.KindJoin, "nodeRegistration.name"},
		{"patches", v1beta4.KindJoin, "patches.directory"},
		{"tls-bootstrap-token", v1beta4.KindJoin, "discovery.tlsBootstrapToken"},
	}
}

func resetFields() []flagField {
	return []flagField{
		{"cert-dir", v1beta4.KindReset, "certificatesDir"},
		{"cleanup-tmp-dir", v1beta4.KindReset, "cleanupTmpDir"},
		{"cri-socket", v1beta4.KindReset, "criSocket"},
		{"force", v1beta4.KindReset, "force"},
		{"ignore-preflight-errors", v1beta4.KindReset, "ignorePreflightErrors"},
	}
}

func tokenFields() []flagField {
	return []flagField{
		{"certificate-key", v1beta4.KindInit, "certificateKey"},
		{"description", v1beta4.KindInit, "bootstrapTokens[0].description"},
		{"groups", v1beta4.KindInit, "bootstrapTokens[0].groups"},
		{"ttl", v1beta4.KindInit, "bootstrapTokens[0].ttl"},
		{"usages", v1beta4.KindInit, "bootstrapTokens[0].usages"},
	}
}

// RefuseMixed is an error if flags that may not be given beside --config are among
// those that were given, named without dashes. It tells which fields they stand for.
func (InitFlags) RefuseMixed(given []string) error { return refuseMixed(given, initFields()) }

// RefuseMixed is as for InitFlags.
func (JoinFlags) RefuseMixed(given []string) error { return refuseMixed(given, joinFields()) }

// RefuseMixed is as for InitFlags.
func (ResetFlags) RefuseMixed(given []string) error { return refuseMixed(given, resetFields()) }

// RefuseMixed is as for InitFlags.
func (TokenFlags) RefuseMixed(given []string) error { return refuseMixed(given, tokenFields()) }

func refuseMixed(given []string, fields []flagField) error {
	var names []string
	for _, flag := range slices.Sorted(slices.Values(given)) {
		if AllowedWithFile(flag) {
			continue
		}
		name := "--" + flag
		if i := slices.IndexFunc(fields, func(f flagField) bool { return f.flag == flag }); i >= 0 {
			name += fmt.Sprintf(" (%s %s)", fields[i].kind, fields[i].path)
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("not to be given beside --config: %s: say it in the file", strings.Join(names, ", "))
}

// speaker tells how the user spells a field: by its flag, or by kind and path. With
// a file, only the flags that were given beside it are spoken of.
func speaker(file File, common Common, fields []flagField) func(kind, path string) string {
	return func(kind, path string) string {
		i := slices.IndexFunc(fields, func(f flagField) bool { return f.kind == kind && within(path, f.path) })
		byFlag := i >= 0 && (!file.Given() || fields[i].flag == "node-name" && common.NodeName != "")
		if byFlag {
			return fields[i].spoken()
		}
		return kind + " " + path
	}
}

func within(path, field string) bool {
	rest, ok := strings.CutPrefix(path, field)
	return ok && (rest == "" || rest[0] == '[')
}
