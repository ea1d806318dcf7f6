package change

import (
	"context"
	"errors"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"kubeadm/internal/state"
)

// RemovePacketRules removes the packet filter rules of kube-proxy, the kubelet and CNI plugins that
// a program manages: their chains with the rules that jump to them, their nftables tables, their
// sets. All other rules stay.
type RemovePacketRules struct{ Program string } // one of state.PacketFilters()

// Target names the rules that the program manages.
func (c RemovePacketRules) Target() string { return "rules:" + c.Program }

func (c RemovePacketRules) String() string {
	what := c.Program + " rules"
	switch c.Program {
	case "nft":
		what = "nftables tables"
	case "ipset":
		what = "IP sets"
	}
	return "remove the " + what + " of Kubernetes and CNI plugins"
}

// Done reports whether there are none of these rules, or the program is not installed.
func (c RemovePacketRules) Done(ctx context.Context, r state.Reader) (bool, error) {
	rules, err := r.PacketRules(ctx, c.Program)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return err == nil && !c.Matches(rules), err
}

// Matches reports whether some of the listed rules of the program are to be removed.
func (c RemovePacketRules) Matches(rules string) bool {
	return slices.ContainsFunc(c.parse(rules), ruleTable.isChanged)
}

// Inverse is ErrIrreversible: kube-proxy and the plugins write their rules again.
func (c RemovePacketRules) Inverse(context.Context, state.Reader) (Change, error) {
	return nil, ErrIrreversible
}

// podNetworkTables are nftables tables of kube-proxy, of the CNI plugins portmap and ptp or bridge,
// and of flannel.
var podNetworkTables = []string{
	"table ip kube-proxy", "table ip6 kube-proxy",
	"table inet cni_hostport", "table inet cni_plugins_masquerade",
	"table ip flannel-ipv4", "table ip6 flannel-ipv6",
}

// podNetworkChain matches the chains of kube-proxy, the kubelet, kube-router, the CNI plugins bridge,
// portmap and firewall, flannel and Calico. CNI-ADMIN is for rules of the user. Names end in a hash
// where there is one for each Service, Pod or policy: 16 characters of base32 (Kubernetes), or
// hexadecimal digits that fill a name up to 28 characters (CNI).
var podNetworkChain = regexp.MustCompile(`^(KUBE-(` +
	`SERVICES|NODEPORTS|NODE-PORT|EXTERNAL-SERVICES|POSTROUTING|FORWARD|MARK-MASQ|MARK-DROP|FIREWALL|HOSTPORTS|` +
	`PROXY-FIREWALL|PROXY-CANARY|KUBELET-CANARY|IPTABLES-HINT|LOAD-BALANCER|SOURCE-RANGES-FIREWALL|` +
	`IPVS-FILTER|IPVS-OUT-FILTER|ROUTER-(INPUT|FORWARD|OUTPUT|SERVICES)|NWPLCY-(DEFAULT|COMMON)|` +
	`(SVC|SVL|SEP|EXT|FW|XLB|HP|NWPLCY|POD-FW)-[A-Z2-7]{16})|` +
	`CNI-(FORWARD|HOSTPORT-(DNAT|SETMARK|MASQ)|ISOLATION-STAGE-[12]|[0-9a-f]{24}|(DN|SN)-[0-9a-f]{21})|` +
	`FLANNEL-(POSTRTG|FWD)|cali-.+)$`)

// podNetworkSet matches the IP sets of kube-proxy's mode ipvs and of Calico.
var podNetworkSet = regexp.MustCompile(`^(KUBE-(6-)?(` +
	`CLUSTER-IP|LOOP-BACK|EXTERNAL-IP(-LOCAL)?|LOAD-BALANCER(-LOCAL|-FW|-SOURCE-IP|-SOURCE-CIDR)?|` +
	`LOAD-BALANCER-SOURCE|NODE-PORT(-LOCAL)?-(TCP|UDP|SCTP)(-HASH)?|HEALTH-CHECK-NODE-PORT|IPVS-IPS)|` +
	`cali[46]0.+)$`)

// Without returns the listed rules of the program that stay.
func (c RemovePacketRules) Without(rules string) string {
	var kept []string
	for _, t := range c.parse(rules) {
		lines := t.keptLines()
		if c.createsTables() && t.isChanged() {
			if t.isEmptyAfterRemoval() {
				continue
			}
			idle := t.idleChains()
			lines = slices.DeleteFunc(lines, func(line string) bool {
				return slices.Contains(idle, chainOf(line))
			})
		}
		kept = append(kept, lines...)
	}
	if len(kept) == 0 {
		return ""
	}
	return strings.Join(kept, "\n") + "\n"
}

// createsTables reports whether the program creates tables and built-in chains when it adds the
// first rule. Those of iptables-legacy exist as long as its kernel modules are loaded.
func (c RemovePacketRules) createsTables() bool { return strings.HasSuffix(c.Program, "-nft") }

// Restore returns the input of iptables-restore --noflush that removes these rules; empty if there
// are none. Each table is changed at once.
func (c RemovePacketRules) Restore(rules string) string {
	var b strings.Builder
	for _, t := range c.parse(rules) {
		if !t.isChanged() {
			continue
		}
		b.WriteString(t.header + "\n")
		for _, chain := range t.chains { // a declaration empties the chain
			b.WriteString(":" + chain + " - [0:0]\n")
		}
		for _, jump := range t.jumps {
			b.WriteString("-D" + strings.TrimPrefix(jump, "-A") + "\n")
		}
		for _, chain := range t.chains {
			b.WriteString("-X " + chain + "\n")
		}
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

// IdleTable is what a removal of rules leaves of a table of nftables that a program of iptables has
// created: chains without an effect, perhaps the whole table.
type IdleTable struct {
	Family string // "ip" or "ip6"
	Name   string
	Chains []string
	Whole  bool // the table has no other chain
}

// Idle lists, after Restore, the tables and built-in chains that were created for the removed rules
// and have no effect any more: now they accept by default and have no rule. Another program may have
// added one since the rules were listed before.
func (c RemovePacketRules) Idle(before, now string) (idle []IdleTable) {
	if !c.createsTables() {
		return nil
	}
	family, _, _ := strings.Cut(c.Program, "tables")
	current := c.parse(now)
	for _, t := range c.parse(before) {
		i := slices.IndexFunc(current, func(n ruleTable) bool { return n.header == t.header })
		if i < 0 || !t.isChanged() {
			continue
		}
		table := IdleTable{Family: family, Name: strings.TrimPrefix(t.header, "*")}
		table.Whole = t.isEmptyAfterRemoval() && !current[i].isChanged() && current[i].isEmptyAfterRemoval()
		for _, line := range current[i].lines {
			chain := chainOf(line)
			if strings.HasPrefix(line, ":"+chain+" ACCEPT ") && !current[i].hasRule(chain) &&
				(table.Whole || slices.Contains(t.idleChains(), chain)) {
				table.Chains = append(table.Chains, chain)
			}
		}
		if table.Whole || len(table.Chains) > 0 {
			idle = append(idle, table)
		}
	}
	return idle
}

// Removed lists the nftables tables or sets that the change removes, as the program lists them.
func (c RemovePacketRules) Removed(rules string) (lines []string) {
	for line := range strings.Lines(rules) {
		line = strings.TrimSpace(line)
		if c.Program == "nft" && slices.Contains(podNetworkTables, line) ||
			c.Program == "ipset" && podNetworkSet.MatchString(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// ruleTable is a table of iptables, or the whole list of tables of nftables or of sets.
type ruleTable struct {
	header        string // "*nat"; empty for a list
	lines         []string
	chains, jumps []string // to remove
}

func (c RemovePacketRules) parse(rules string) (tables []ruleTable) {
	if c.Program == "nft" || c.Program == "ipset" {
		t := ruleTable{chains: c.Removed(rules)}
		for line := range strings.Lines(rules) {
			t.lines = append(t.lines, strings.TrimSpace(line))
		}
		return []ruleTable{t}
	}
	for line := range strings.Lines(rules) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "*") {
			tables = append(tables, ruleTable{header: line})
		}
		if len(tables) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		t := &tables[len(tables)-1]
		t.lines = append(t.lines, line)
		if name, ok := strings.CutPrefix(line, ":"); ok {
			if name, _, _ = strings.Cut(name, " "); podNetworkChain.MatchString(name) {
				t.chains = append(t.chains, name)
			}
		} else if chain, ok := strings.CutPrefix(line, "-A "); ok {
			chain, _, _ = strings.Cut(chain, " ")
			if !podNetworkChain.MatchString(chain) && podNetworkChain.MatchString(jumpTarget(line)) {
				t.jumps = append(t.jumps, line)
			}
		}
	}
	return tables
}

// jumpTarget returns the chain that a rule jumps or goes to; empty for a rule of another kind. A
// quoted comment may contain anything.
func jumpTarget(rule string) string {
	var words []string
	for i, part := range strings.Split(strings.ReplaceAll(rule, `\"`, ""), `"`) {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		}
	}
	for i, w := range words[:max(0, len(words)-1)] {
		if w == "-j" || w == "-g" {
			return words[i+1]
		}
	}
	return ""
}

func (t ruleTable) isChanged() bool { return len(t.chains)+len(t.jumps) > 0 }

// keptLines are the lines that stay.
func (t ruleTable) keptLines() []string {
	return slices.DeleteFunc(slices.Clone(t.lines), func(line string) bool {
		if t.header == "" {
			return slices.Contains(t.chains, line)
		}
		return slices.Contains(t.jumps, line) || podNetworkChain.MatchString(chainOf(line))
	})
}

func (t ruleTable) hasRule(chain string) bool {
	return slices.ContainsFunc(t.lines, func(line string) bool {
		return strings.HasPrefix(line, "-A "+chain+" ")
	})
}

// chainOf returns the chain that a line declares or adds a rule to; empty for other lines.
func chainOf(line string) string {
	chain, isRule := strings.CutPrefix(line, "-A ")
	chain, declares := strings.CutPrefix(chain, ":")
	if !isRule && !declares {
		return ""
	}
	chain, _, _ = strings.Cut(chain, " ")
	return chain
}

// idleChains are the built-in chains with removed jumps that accept by default and have no rule.
func (t ruleTable) idleChains() (idle []string) {
	kept := t.keptLines()
	for _, line := range kept {
		name := chainOf(line)
		if !strings.HasPrefix(line, ":"+name+" ACCEPT ") {
			continue
		}
		inChain := func(rule string) bool { return strings.HasPrefix(rule, "-A "+name+" ") }
		if slices.ContainsFunc(t.jumps, inChain) && !slices.ContainsFunc(kept, inChain) {
			idle = append(idle, name)
		}
	}
	return idle
}

// isEmptyAfterRemoval reports whether nothing that stays in a table of iptables has an effect.
func (t ruleTable) isEmptyAfterRemoval() bool {
	return t.header != "" && !slices.ContainsFunc(t.keptLines(), func(line string) bool {
		return strings.HasPrefix(line, "-A ") ||
			strings.HasPrefix(line, ":") && !strings.Contains(line, " ACCEPT ")
	})
}
