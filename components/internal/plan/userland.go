package plan

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"kubeadm/components/internal/cache"
	"kubeadm/components/internal/debian"
)

// userlandPart is the tree of Debian programs that kube-proxy runs. Its key is the exact versions of all packages in it.
func (p *Plan) userlandPart(ctx context.Context) (cache.Part, error) {
	part := cache.Part{Name: "kube-proxy-userland"}
	sources, err := cache.Sources(p.root, "internal/debian/*.go", "internal/plan/userland.go")
	if err != nil {
		return part, err
	}
	// A machine that never fetched package lists has no answer yet.
	packages, err := debian.Closure(ctx, userland()...)
	if err == nil {
		part.Key = cache.NewKey(sources, fmt.Sprint(packages))
		if _, err := os.Stat(p.store.Path(part)); err == nil {
			return part, nil
		}
	}
	// Versions that apt remembers may be gone, so nothing is built on an old list.
	p.store.Say("fetching Debian's package lists")
	if err := debian.Update(ctx); err != nil {
		return part, err
	}
	if packages, err = debian.Closure(ctx, userland()...); err != nil {
		return part, err
	}
	part.Key = cache.NewKey(sources, fmt.Sprint(packages))
	part.Build = func(ctx context.Context, dir string) error {
		if err := debian.Unpack(ctx, dir, packages); err != nil {
			return err
		}
		return chooseNft(filepath.Join(dir, "usr/sbin"))
	}
	return part, nil
}

func userland() []string {
	return []string{"iptables", "nftables", "conntrack", "ipset", "kmod"}
}

// chooseNft makes the links that Debian's package scripts would: iptables in its nftables flavour.
func chooseNft(sbin string) error {
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			if err := os.Symlink("xtables-nft-multi", filepath.Join(sbin, name+suffix)); err != nil {
				return err
			}
		}
	}
	return nil
}
