package flag

import "slices"

// Row is everything that is known of a flag.
type Row struct {
	Name       Name
	Short      string             // one letter; empty for none
	Type       string             // of its value, as help shows it
	Help       string             // no final period
	HelpOf     map[Command]string // where the flag means something else
	Deprecated string             // what to use instead; such a flag is accepted and hidden
	WithConfig bool               // may be given together with --config
	Fields     []Field
}

// Command is a command whose flags stand for fields of a configuration file, or whose flags have
// help of their own.
type Command string

// These commands.
const (
	Init           Command = "init"
	Join           Command = "join"
	Reset          Command = "reset"
	SnapshotSave   Command = "etcd snapshot save"
	SnapshotStatus Command = "etcd snapshot status"
	TokenCreate    Command = "token create"
	UpgradeApply   Command = "upgrade apply"
	UpgradeDiff    Command = "upgrade diff"
	UpgradeNode    Command = "upgrade node"
	UpgradePlan    Command = "upgrade plan"
)

// The kinds of the fields.
const (
	kindInit    = "InitConfiguration"
	kindCluster = "ClusterConfiguration"
	kindJoin    = "JoinConfiguration"
	kindReset   = "ResetConfiguration"
	kindUpgrade = "UpgradeConfiguration"
)

// Field is the configuration field that a flag of a command stands for.
type Field struct {
	Command    Command
	Kind, Path string
}

// Types of values.
const (
	text     = "string"
	list     = "strings"
	texts    = "stringArray"
	textMap  = "mapStringString"
	boolean  = "bool"
	integer  = "int"
	int32s   = "int32"
	duration = "duration"
)

// TextList is the value of a flag that may be repeated, and whose values may contain commas.
type TextList []string

// Of returns the row of a flag. A name that no flag has is a mistake of the program, so it panics.
func Of(name Name) Row {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == name })
	if i < 0 {
		panic("flag: no row for --" + string(name))
	}
	return rows[i]
}

// IsAllowedWithConfig reports whether a flag may be given together with --config.
func IsAllowedWithConfig(name Name) bool {
	return slices.ContainsFunc(rows, func(r Row) bool { return r.Name == name && r.WithConfig })
}

// FieldOf is the field that a flag stands for.
type FieldOf struct {
	Flag Name
	Field
}

// Fields are the fields that the flags of a command stand for.
func Fields(c Command) []FieldOf {
	var all []FieldOf
	for _, r := range rows {
		for _, f := range r.Fields {
			if f.Command == c {
				all = append(all, FieldOf{r.Name, f})
			}
		}
	}
	return all
}

// WithDiscovery are these flags and those that say how a joining machine finds and trusts the
// cluster.
func WithDiscovery(names ...Name) []Name {
	return append(names, DiscoveryFile, DiscoveryToken, DiscoveryTokenHash, DiscoveryTokenUnsafe,
		TLSBootstrapToken, Token)
}
