// Package pki generates and checks the keys, certificates and kubeconfig files of a
// cluster. It works on values and bytes only: it reads no file and no clock.
//
// Its parts, in the order in which a node's files are generated: the list of certificates and
// their contents for a node (profile.go, san.go), private keys (key.go, key_pool.go),
// certificates (certificate.go), checks of existing files (verify.go, file.go, shared_files.go),
// kubeconfig files (kubeconfig_profile.go, kubeconfig.go), and the encryption of uploaded
// certificates (upload_encryption.go).
package pki
