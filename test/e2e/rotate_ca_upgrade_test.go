//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"kubeadm/internal/pki"
	"kubeadm/test/nodes"
)

// TestUpgradeAndRenewalDuringCARotation renews the certificates and upgrades the cluster in the
// middle of a rotation. Certificates are signed by the CA of the stage, and everything still trusts
// both.
func TestUpgradeAndRenewalDuringCARotation(t *testing.T) {
	parallel(t)
	inFullRun(t, "minutes")
	s := &haCluster{testCluster: testCluster{Cluster: newOlderCluster(t)}}
	must(t, s.createNodes(t.Context(), 1, 1))
	useOlder(t, s.Nodes()...)
	must(t, s.initFirst(t.Context(), nodes.Config{Version: olderVersion(t)}))
	runCommand(t, s.worker, workerJoinCommand(kubeadm, &s.testCluster)...)
	must(t, awaitClusterReady(t.Context(), s.cp, 2))
	createWitness(t, s.cp)
	r := &rotatedCluster{haCluster: s}
	before := r.readCAs(t, r.cp)

	r.run(t, "trust", r.cp)
	r.renewAndUpgrade(t, "old")
	r.run(t, "trust", r.worker)
	runCommand(t, r.cp, append(r.command(r.cp, "sign"), "--ignore-running-pods")...)
	r.renewAndUpgrade(t, "new")
	runCommand(t, r.worker, upgradeNodeCommand()...)
	r.run(t, "sign", r.worker)
	r.restartAddons(t)
	runCommand(t, r.cp, append(r.command(r.cp, "finish"), "--ignore-running-pods")...)
	r.run(t, "finish", r.worker, r.cp)
	r.checkReplaced(t, before, true)
	awaitWitness(t, r.cp)
	checkUpgradeToSameVersion(t, r.cp)
}

// renewAndUpgrade renews all certificates and upgrades the cluster, twice. A CA of that side signs.
func (r *rotatedCluster) renewAndUpgrade(t *testing.T, side string) {
	t.Helper()
	runCommand(t, r.cp, renewCommand()...)
	r.checkSide(t, side)
	if out := runCommand(t, r.cp, upgradeCommand(upgradeTarget)...); strings.Contains(out,
		"changed manually") {
		t.Errorf("it takes the manifests for changed ones:\n%s", out)
	}
	checkRunningVersion(t, r.cp, upgradeTarget)
	r.checkSide(t, side)
	checkUpgradeToSameVersion(t, r.cp)
	r.checkSide(t, side)
	runCommand(t, r.cp, kubeadm, "certs", "renew", "kubelet.conf")
	awaitWitness(t, r.cp)
	must(t, awaitClusterReady(t.Context(), r.cp, 2))
}

// checkSide checks the state of a control plane in the middle of a rotation: which CAs have signed
// its certificates, that kubeconfigs trust both, and with what kube-controller-manager signs.
func (r *rotatedCluster) checkSide(t *testing.T, side string) {
	t.Helper()
	checkKeyPairs(t, r.cp)
	present := readPresentCertificates(t, r.cp)
	for _, c := range pki.Renewables() {
		profile, _ := pki.ProfileOf(c.Issuer)
		ca := parseOne(t, readFile(t, r.cp, certsDir+"ca-rotation/"+side+"/"+
			profile.CertificateFile()))
		if err := present[c.Name].CheckSignatureFrom(ca); err != nil {
			t.Errorf("%s is not signed by the %s CA: %v", c.Name, side, err)
		}
		if c.File == "" {
			continue
		}
		config, err := pki.ParseKubeconfig([]byte(readFile(t, r.cp, kubernetesDir+c.File)))
		must(t, err)
		cluster, err := config.CurrentCluster()
		must(t, err)
		if certs, err := pki.ParseCertificates(cluster.CertificateAuthorityData); err != nil ||
			len(certs) != 2 {
			t.Errorf("%s trusts %d CAs: %v", c.File, len(certs), err)
		}
	}
	manifest := readFile(t, r.cp, kubernetesDir+"manifests/kube-controller-manager.yaml")
	if !strings.Contains(manifest, "cluster-signing-cert-file="+certsDir+"ca-rotation/signing.crt") {
		t.Errorf("kube-controller-manager signs with another CA:\n%s", manifest)
	}
	checkCertificatesInUse(t, r.cp)
}
