// Package pki makes and checks the keys, certificates and kubeconfig files of a
// cluster. Values go in and bytes come out: it reads no file, asks no clock and
// knows no other package of the project.
//
// The parts, in the order in which a node's files are made:
//
//	Profiles            which certificates there are, as data
//	Profile.Spec        what one of them says about this node (SANs, subject)
//	NewKey, Stock       its private key
//	NewCA, CA.Issue     the certificate itself
//	Stored              whether files found on disk may be kept instead
//	KubeconfigProfiles  the kubeconfig files, built by Access
//	CertificateKey      the seal of certificates that travel through the cluster
package pki
