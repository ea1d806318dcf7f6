package doctor

import (
	"fmt"
	"strings"

	"kubeadm/internal/manifest"
	"kubeadm/internal/untrusted"
)

// configFile is the file to which a remedy exports the configuration of the cluster.
const configFile = "cluster.yaml"

// runWithStored is the command of a phase of init that creates a file of this node by the
// configuration that the cluster stores. Without a file a phase of init uses the defaults. The files
// that it would keep or refuse are moved away, once the configuration has been read.
func runWithStored(m *machine, phase string, inTheWay []string) string {
	kubectl := untrusted.Command("kubectl --kubeconfig", m.cluster.as.Kubeconfig)
	if kubectl == "" || untrusted.Command("", m.Name) == "" {
		return ""
	}
	command := fmt.Sprintf("%s -n kube-system get configmap %s -o 'jsonpath={.data.%s}' >%s", kubectl,
		manifest.KubeadmConfigMap, manifest.KubeadmConfigKey, configFile)
	own := fmt.Sprintf(`\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n`+
		`nodeRegistration: {name: %s}\n`, m.Name)
	if m.Address != "" {
		own += fmt.Sprintf(`localAPIEndpoint: {advertiseAddress: "%s", bindPort: %d}\n`,
			m.Address, m.BindPort)
	}
	command = fmt.Sprintf("%s && printf '%s' >>%s", command, own, configFile)
	for _, file := range inTheWay {
		command += " && " + untrusted.Command("mv", file, file+".old")
	}
	return fmt.Sprintf("%s && kubeadm init phase %s --config %s", command, phase, configFile)
}

// generateFile says how to generate a file of this node, and the command for it if the stored
// configuration can be read.
func generateFile(m *machine, phase string, inTheWay ...string) (remedy, command string) {
	remedy = "generate it from the cluster's configuration"
	if len(inTheWay) > 0 {
		remedy = fmt.Sprintf("move %s out of the way, and %s", strings.Join(inTheWay, " and "), remedy)
	}
	if m.cluster.as.Kubeconfig == "" {
		return remedy + ", with the file that was given to kubeadm init: kubeadm init phase " + phase +
			" --config FILE", ""
	}
	return remedy + "; if the API server does not answer, use the file that was given to kubeadm init instead",
		runWithStored(m, phase, inTheWay)
}
