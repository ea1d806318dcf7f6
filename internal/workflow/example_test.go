package workflow_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"fmt"
	"io"
	"log"

	"kubeadm/internal/config"
	"kubeadm/internal/engine"
	"kubeadm/internal/node"
	"kubeadm/internal/pki"
	"kubeadm/internal/release"
	"kubeadm/internal/state"
	"kubeadm/internal/workflow"
	"kubeadm/internal/world/fake"
)

// A workflow is a list of phases that run in a world. Here the world is a machine in memory, and
// only one phase of init is selected. Running it again changes nothing.
func Example() {
	ctx := context.Background()
	machine := fake.New()
	tool, err := release.ParseTool(release.DefaultTool)
	if err != nil {
		log.Fatal(err)
	}
	intent, _, err := config.Init(config.File{}, config.NewInitFlags(), config.Facts{
		Tool:      tool,
		Hostname:  "cp1",
		Addresses: []state.Address{{IP: "192.0.2.10", DefaultRoute: true}},
		Random:    rand.Reader,
	})
	if err != nil {
		log.Fatal(err)
	}
	env := engine.New(engine.Env{
		World: machine,
		Local: intent.Local,
		Node:  func(context.Context) (*node.Node, error) { return intent, nil },
		Rand:  func(string) io.Reader { return rand.Reader },
		Keys:  func(pki.Need) (crypto.Signer, error) { return pki.NewKey(rand.Reader, pki.ECDSAP256) },
		Emit:  func(engine.Event) {},
	})

	only := engine.Selection{Only: "certs/ca"}
	if err := engine.Run(ctx, env, workflow.Init, only); err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "ca.key"} {
		file, err := machine.Stat(ctx, "/etc/kubernetes/pki/"+name)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, file.Mode)
	}

	before := machine.Snapshot()
	if err := engine.Run(ctx, env, workflow.Init, only); err != nil {
		log.Fatal(err)
	}
	fmt.Println("unchanged:", machine.Snapshot() == before)
	// Output:
	// ca.crt -rw-r--r--
	// ca.key -rw-------
	// unchanged: true
}
