package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commandRules are about command lines in hints, remedies and messages.
func commandRules() []rule {
	return []rule{{
		name: "a value in a command line comes from untrusted.Command",
		reason: "names of objects, files and services may hold blanks and what a shell executes, " +
			"and users copy these lines",
		check: func(s source, report func(token.Pos, string, ...any)) {
			own := ownWords()
			s.program(func(f file) {
				if f.dir == "internal/untrusted" {
					return
				}
				ast.Inspect(f.File, func(n ast.Node) bool {
					e, ok := n.(ast.Expr)
					if !ok {
						return true
					}
					for _, value := range valuesInCommands(e) {
						word := path.Base(f.dir) + " " + types.ExprString(value)
						if _, isOwn := own[word]; isOwn {
							own[word] = true
						} else {
							report(value.Pos(), "%q stands in a command line", word)
						}
					}
					_, isSum := e.(*ast.BinaryExpr)
					return !isSum
				})
			})
			for _, word := range slices.Sorted(maps.Keys(own)) {
				if !own[word] {
					report(s.files[0].Pos(), "%q is an exception that nothing needs", word)
				}
			}
		},
	}}
}

// ownWords returns packages and expressions that are words of this program, or validated where they are
// read: each is false until it is found.
func ownWords() map[string]bool {
	own := map[string]bool{}
	for _, list := range []string{
		// certificates, kubeconfigs and phases
		`certstore p.Name; certstore name; certstore strings.TrimSuffix(c.File, ".conf"); certstore c.Name;
		cli c.Name; cli name; cli use; doctor c.Name; doctor p.File; doctor phase; certs p.Name; finished phase;
		renewal c.Name; renewal strings.TrimSuffix(r.File, ".conf"); workflow name`,
		// stages of a CA rotation, and its key
		`cli string(s); rotateca before.Command(); rotateca s.Command(); rotateca m.Stage.Command();
		rotateca command.Command(); rotateca text`,
		// versions, and IDs of tokens
		`cli t.ID; cli a.candidate.String(); cli a.candidate.Flag(); cli skew.Target; cli strings.Join(via, ",");
		check target; check e.Tool; upgrade series; upgrade next; upgrade flag`,
		// objects, components, services and kernel settings that this program creates or looks for
		`clusterlock metav1.NamespaceSystem; clusterlock LeaseName; config stored.name; config stored.jsonpath;
		config name; doctor selector; doctor name; doctor moduleFile(name); doctor configFile; manifest configMap;
		upgrade l.component; preflight set.Name; preflight set.Value; preflight sysctlFile(set); preflight words;
		preflight unit; workflow manifest.ClusterAdmins().GetName(); workflow manifest.AdminGroup;
		workflow client.GetName(); linux c.Name;
		node verb; node service`,
		// the join command, whose parts are parsed
		`manifest endpoint; manifest token`,
	} {
		for word := range strings.SplitSeq(list, ";") {
			own[strings.TrimSpace(word)] = false
		}
	}
	return own
}

// commandLine matches a sentence that contains a command.
var commandLine = regexp.MustCompile(`\b(kubectl|crictl|systemctl|journalctl|etcdctl|modprobe|openssl|` +
	`sysctl -w|cp|rm|mv|ip (link|netns)|` +
	`kubeadm (init|join|reset|upgrade|certs|token|config|kubeconfig|doctor)) [^;,\n"]*$`)

// verb matches a verb of a format for a value that may be text.
var verb = regexp.MustCompile(`%(\[\d\])?([sqvdxtc%]|[+#]?v|\.\d+f)`)

// valuesInCommands returns the operands of a sum of strings, or the arguments of a format, that
// stand in a command line.
func valuesInCommands(e ast.Expr) (values []ast.Expr) {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		text := ""
		for _, o := range operands(sum) {
			part, isText := constantText(o)
			if !isText && isInCommand(text) {
				values = append(values, o)
			}
			text += part
		}
		return values
	}
	call, ok := e.(*ast.CallExpr)
	if !ok || strings.HasPrefix(types.ExprString(call.Fun), "untrusted.Command") {
		return nil
	}
	for i, a := range call.Args {
		format, ok := constantText(a)
		if !ok || i+1 == len(call.Args) {
			continue
		}
		next, end := i+1, 0
		for _, at := range verb.FindAllStringSubmatchIndex(format, -1) {
			before, kind := format[:at[0]], format[at[4]:at[5]]
			end = at[1]
			if kind == "%" {
				continue
			}
			if at[2] >= 0 {
				n, _ := strconv.Atoi(strings.Trim(format[at[2]:at[3]], "[]"))
				next = i + n
			}
			if next < len(call.Args) && strings.Contains("sqv+v#v", kind) && isInCommand(before) {
				values = append(values, call.Args[next])
			}
			next++
		}
		if end > 0 {
			break
		}
	}
	return values
}

func isInCommand(text string) bool {
	for _, end := range []string{": ", "; "} {
		text = text[strings.LastIndex(text, end)+1:]
	}
	return commandLine.MatchString(text)
}

// operands returns a, b and c of a + b + c.
func operands(e ast.Expr) []ast.Expr {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return slices.Concat(operands(sum.X), operands(sum.Y))
	}
	return []ast.Expr{e}
}

// constantText returns the text of a string literal, or of a sum of literals and values, each shown as "?".
func constantText(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			break
		}
		text := ""
		for _, o := range operands(e) {
			part, ok := constantText(o)
			if !ok {
				part = "?"
			}
			text += part
		}
		return text, true
	}
	return "?", false
}

// The rule finds values of all forms, and no others.
func TestValuesInCommands(t *testing.T) {
	for text, want := range map[string]string{
		`"remove it: kubectl delete node " + name`:                         "name",
		`fmt.Sprintf("%s: run kubectl -n %s delete pod %q", why, ns, pod)`: "ns pod",
		`e.Warn("it is stale: cp %[2]s %[1]s", to, from)`:                  "from to",
		`f("kubectl get nodes; %s", err)`:                                  "",
		`f("etcdctl member remove %x", id)`:                                "",
		`untrusted.Command("kubectl delete node %s", name)`:                "",
		`"kubeadm " + version + " is older"`:                               "",
	} {
		e, err := parser.ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, value := range valuesInCommands(e) {
			got = append(got, types.ExprString(value))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
