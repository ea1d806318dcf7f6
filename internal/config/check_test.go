package config

import (
	"strings"
	"testing"
)

func TestClusterRules(t *testing.T) {
	for text, want := range map[string]string{ // want is empty for what is allowed
		"networking: {serviceSubnet: 10.96.0.0/28}":                         "",
		"networking: {serviceSubnet: 10.96.0.0/29}":                         "networking.serviceSubnet: Invalid value: \"10.96.0.0/29\": 10.96.0.0/29 is too small: the prefix length must be at most /28",
		"networking: {serviceSubnet: 10.0.0.0/11}":                          "networking.serviceSubnet: Invalid value: \"10.0.0.0/11\": is too large: the prefix length must be at least /12",
		"networking: {serviceSubnet: 'fd00::/107'}":                         "networking.serviceSubnet: Invalid value: \"fd00::/107\": is too large: the prefix length must be at least /108",
		"networking: {serviceSubnet: '10.96.0.0/16,fd00::/112'}":            "",
		"networking: {serviceSubnet: '10.96.0.0/16, fd00::/112'}":           "must be a CIDR",
		"networking: {serviceSubnet: '10.96.0.0/16,10.97.0.0/16'}":          "one IPv4 and one IPv6 CIDR",
		"networking: {serviceSubnet: '10.96.0.0/16,fd00::/112,fd01::/112'}": "one IPv4 and one IPv6 CIDR",
		"networking: {podSubnet: 10.244.0.0/8}":                             "",
		"networking: {podSubnet: 10.244.0.0/7}":                             "is too large for a Pod CIDR of /24 per node: the prefix length must be at least /8",
		"networking: {podSubnet: 10.244.0.0/25}":                            "is smaller than the Pod CIDR of a single node, /24",
		"networking: {podSubnet: 'fd00::/47'}":                              "is too large for a Pod CIDR of /64 per node: the prefix length must be at least /48",
		"networking: {podSubnet: 10.244.0.0/25}\ncontrollerManager: {extraArgs: [{name: allocate-node-cidrs, value: 'false'}]}":     "",
		"networking: {podSubnet: 10.244.0.0/25}\ncontrollerManager: {extraArgs: [{name: node-cidr-mask-size-ipv4, value: '26'}]}":   "",
		"networking: {podSubnet: 10.244.0.0/16}\ncontrollerManager: {extraArgs: [{name: node-cidr-mask-size-ipv4, value: 'many'}]}": "controllerManager.extraArgs[node-cidr-mask-size-ipv4]: Invalid value: \"many\" is not an integer",
		"networking: {dnsDomain: -x}":                                               "networking.dnsDomain",
		"controlPlaneEndpoint: api.example":                                         "",
		"controlPlaneEndpoint: 'api.example:8443'":                                  "",
		"controlPlaneEndpoint: '[fd00::1]:8443'":                                    "",
		"controlPlaneEndpoint: 'fd00::1'":                                           "",
		"controlPlaneEndpoint: 'api.example:0'":                                     "port \"0\" must be a number, 1 to 65535",
		"controlPlaneEndpoint: 'api.example:https'":                                 "port \"https\" must be a number",
		"controlPlaneEndpoint: 'https://api.example'":                               "must be host or host:port",
		"controlPlaneEndpoint: API.example":                                         "must be an IP address or a DNS name in lower case",
		"apiServer: {certSANs: ['*.Example.org', 10.0.0.1, 'fd00::1', a.b]}":        "",
		"apiServer: {certSANs: ['a b']}":                                            "apiServer.certSANs",
		"apiServer: {extraArgs: [{name: '', value: x}]}":                            "apiServer.extraArgs[0].name: Required value",
		"imageRepository: 'registry.example:5000/a/b_c'":                            "",
		"imageRepository: '[fd00::1]:5000/a'":                                       "",
		"imageRepository: 'registry.example/A'":                                     "imageRepository",
		"imageRepository: 'registry.example/a:tag'":                                 "imageRepository",
		"dns: {imageRepository: 'x y'}":                                             "dns.imageRepository",
		"dns: {imageTag: 'a b'}":                                                    "dns.imageTag",
		"etcd: {local: {imageTag: 3.6.0-0, imageRepository: /x}}":                   "etcd.local.imageRepository",
		"etcd: {local: {dataDir: etcd}}":                                            "etcd.local.dataDir: Invalid value: \"etcd\": must be an absolute path",
		"etcd: {local: {serverCertSANs: [a_b], peerCertSANs: ['*']}}":               "etcd.local.serverCertSANs",
		"etcd: {local: {}, external: {endpoints: ['https://a:1']}}":                 "etcd: Invalid value: local and external are mutually exclusive",
		"etcd: {external: {}}":                                                      "etcd.external.endpoints: Required value",
		"etcd: {external: {endpoints: ['http://10.0.0.1:2379']}}":                   "",
		"etcd: {external: {endpoints: ['10.0.0.1:2379']}}":                          "must be a URL such as",
		"etcd: {external: {endpoints: ['http://a:1'], caFile: /ca.crt}}":            "must begin with https://",
		"etcd: {external: {endpoints: ['https://a:1'], caFile: ca.crt}}":            "etcd.external.caFile: Invalid value: \"ca.crt\": must be an absolute path",
		"etcd: {external: {endpoints: ['https://a:1'], certFile: /c}}":              "etcd.external.keyFile: Required value",
		"etcd: {external: {endpoints: ['https://a:1'], keyFile: /k}}":               "etcd.external.certFile: Required value",
		"etcd: {external: {endpoints: ['https://a:1'], certFile: /c, keyFile: /k}}": "etcd.external.caFile: Required value",
		"certificatesDir: pki":                                                      "certificatesDir: Invalid value: \"pki\": must be an absolute path",
		"featureGates: {RootlessControlPlane: false}":                               "",
		"featureGates: {PublicKeysECDSA: true}":                                     "featureGates: Invalid value: feature gate PublicKeysECDSA was removed in 1.37",
		"encryptionAlgorithm: ECDSA-P384":                                           "",
		"encryptionAlgorithm: DSA":                                                  "choose one of RSA-2048, RSA-3072, RSA-4096, ECDSA-P256, ECDSA-P384",
		"certificateValidityPeriod: 0s":                                             "certificateValidityPeriod: Invalid value: \"0s\": must be at least 1m0s",
		"kubernetesVersion: v1.34.0":                                                "",
		"kubernetesVersion: v1.33.9":                                                "kubernetesVersion: kubeadm v1.37.1 does not support Kubernetes v1.33.9, only 1.34 to 1.37; choose one of those",
		"kubernetesVersion: one":                                                    "\"one\" is not a Kubernetes version",
		"kubernetesVersion: v1.38.0":                                                "does not support Kubernetes v1.38.0, only 1.34 to 1.37",
	} {
		_, _, err := Cluster(fileOf(clusterHead+text+"\n"), NewInitFlags(), testFacts(t))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\nwas refused: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant an error with %s", text, err, want)
		}
	}
}

func TestNodeRules(t *testing.T) {
	for text, want := range map[string]string{
		"nodeRegistration: {name: Node.One}":                                 "",
		"nodeRegistration: {name: -x}":                                       "nodeRegistration.name",
		"nodeRegistration: {criSocket: /run/x.sock}":                         "",
		"nodeRegistration: {criSocket: 'unix://x.sock'}":                     "nodeRegistration.criSocket",
		"nodeRegistration: {kubeletExtraArgs: [{name: '', value: x}]}":       "nodeRegistration.kubeletExtraArgs[0].name",
		"nodeRegistration: {ignorePreflightErrors: [All]}":                   "",
		"nodeRegistration: {imagePullPolicy: Never, imagePullSerial: false}": "",
		"nodeRegistration: {imagePullPolicy: never}":                         "must be one of Always, IfNotPresent, Never",
		"localAPIEndpoint: {advertiseAddress: 10.1.2.3, bindPort: 443}":      "",
		"localAPIEndpoint: {advertiseAddress: host}":                         "must be an IP address",
		"localAPIEndpoint: {advertiseAddress: 'fe80::1'}":                    "that other machines can reach",
		"localAPIEndpoint: {advertiseAddress: 255.255.255.255}":              "that other machines can reach",
		"localAPIEndpoint: {bindPort: -1}":                                   "must be a port number, 1 to 65535",
		"certificateKey: " + strings.Repeat("ab", 32):                        "",
		"certificateKey: " + strings.Repeat("ab", 31):                        "certificateKey",
		"bootstrapTokens: [{token: abcdef.0123456789abcdef, ttl: 0s}]":       "",
		"bootstrapTokens: [{expires: 2030-01-02T15:04:05Z}]":                 "",
		"bootstrapTokens: [{ttl: 1h, expires: 2030-01-02T15:04:05Z}]":        "ttl and expires are mutually exclusive",
		"bootstrapTokens: [{usages: [signing]}]":                             "groups are only allowed with the usage authentication",
		"bootstrapTokens: [{groups: ['system:bootstrappers:']}]":             "must begin with system:bootstrappers:",
		"bootstrapTokens: [{groups: ['system:bootstrappers:a:b-9']}]":        "",
		"bootstrapTokens: [{}, {token: x}]":                                  "bootstrapTokens[1].token",
	} {
		_, _, err := Init(fileOf(initHead+text+"\n"), NewInitFlags(), testFacts(t))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\nwas refused: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant an error with %s", text, err, want)
		}
	}
}

func TestJoinRules(t *testing.T) {
	hash := "'sha256:" + strings.Repeat("0a", 32) + "'"
	good := "token: abcdef.0123456789abcdef, apiServerEndpoint: 'api:6443', caCertHashes: [" +
		hash + "]"
	for text, want := range map[string]string{
		"discovery: {bootstrapToken: {" + good + "}}": "",
		"discovery: {}": "discovery: Required value",
		"discovery: {bootstrapToken: {" + good +
			"}, file: {kubeConfigPath: /x}}": "mutually exclusive",
		"discovery: {file: {kubeConfigPath: /x}}":                                                                                      "",
		"discovery: {file: {kubeConfigPath: 'file:///x'}}":                                                                             "",
		"discovery: {file: {kubeConfigPath: 'https://a/b'}}":                                                                           "",
		"discovery: {file: {kubeConfigPath: 'http://a/b'}}":                                                                            "discovery.file.kubeConfigPath: Invalid value: \"http://a/b\": must be a path or an https URL",
		"discovery: {file: {kubeConfigPath: ''}}":                                                                                      "discovery.file.kubeConfigPath: Required value",
		"discovery: {file: {kubeConfigPath: /x}, tlsBootstrapToken: yy}":                                                               "discovery.tlsBootstrapToken: Invalid value: a token is",
		"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'api:6443'}}":                                 "discovery.bootstrapToken.caCertHashes: Required value",
		"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'api:6443', unsafeSkipCAVerification: true}}": "",
		"discovery: {bootstrapToken: {token: x, apiServerEndpoint: 'api:6443', unsafeSkipCAVerification: true}}":                       "discovery.bootstrapToken.token: Invalid value: a token is",
		"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, unsafeSkipCAVerification: true}}":                                "must be host:port of an API server",
		"discovery: {bootstrapToken: {token: abcdef.0123456789abcdef, apiServerEndpoint: 'api:6443', caCertHashes: ['md5:00']}}":       "discovery.bootstrapToken.caCertHashes[0]",
		"caCertPath: ca.crt\ndiscovery: {file: {kubeConfigPath: /x}}":                                                                  "caCertPath: Invalid value: \"ca.crt\": must be an absolute path that ends in .crt",
		"discovery: {file: {kubeConfigPath: /x}}\ncontrolPlane: {certificateKey: x}":                                                   "controlPlane.certificateKey",
		"discovery: {file: {kubeConfigPath: /x}}\ncontrolPlane: {localAPIEndpoint: {bindPort: 70000}}":                                 "controlPlane.localAPIEndpoint.bindPort",
		"discovery: {file: {kubeConfigPath: /x}}\ncontrolPlane: {}":                                                                    "",
	} {
		_, _, err := Join(fileOf(joinHead+text+"\n"), NewJoinFlags(), testFacts(t))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\nwas refused: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant an error with %s", text, err, want)
		case err != nil && strings.Count(err.Error(), "a token is") > 1:
			t.Errorf("%s\none wrong token is reported twice: %v", text, err)
		}
	}
}

func TestResetRules(t *testing.T) {
	for text, want := range map[string]string{
		"unmountFlags: [MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW]": "",
		"unmountFlags: [MNT_FORCE, MNT_NOW]":                                 "unmountFlags[1]: Invalid value: \"MNT_NOW\": must be one of MNT_FORCE, MNT_DETACH, MNT_EXPIRE, UMOUNT_NOFOLLOW",
		"certificatesDir: pki":                                               "certificatesDir: Invalid value",
		"criSocket: npipe:////x":                                             "criSocket: Invalid value",
		"ignorePreflightErrors: [all, x]":                                    "ignorePreflightErrors: Invalid value",
	} {
		_, _, err := Reset(fileOf(resetHead+text+"\n"), NewResetFlags(), testFacts(t))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s\nwas refused: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s\ngot  %v\nwant an error with %s", text, err, want)
		}
	}
}

func TestFindOverlaps(t *testing.T) {
	for _, c := range []struct{ services, pods, want string }{
		{"10.96.0.0/12", "10.0.0.0/8", "10.96.0.0/12 and 10.0.0.0/8"},
		{"10.96.0.0/16,fd00:1::/112", "10.244.0.0/16,fd00::/16", "fd00:1::/112 and fd00::/16"},
		{"10.96.0.0/12", "10.244.0.0/16", ""},
		{"10.96.0.0/12", "fd00::/48", ""},
		{"10.96.0.0/12", "", ""},
	} {
		if got := strings.Join(findOverlaps(c.services, c.pods), ", "); got != c.want {
			t.Errorf("%s and %s: %q, want %q", c.services, c.pods, got, c.want)
		}
	}
}
