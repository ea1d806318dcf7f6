package redact

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// expressionsWithWords are all that are not tried on texts without certain words.
func expressionsWithWords(t *testing.T) []*expression {
	t.Helper()
	var all []*expression
	for _, one := range append([]func() *expression{tokenForm, quotedURLForm, urlForm, userForm, secretInJSON, secretInYAML,
		secretOfGo, dataOfTyped, issuedForm, passwordHashForm, headerForm, schemeForm, parameterForm, userFlagForm,
		staticTokenForm, valueFirst, settingForm, secretName, secretFlag}, programForms...) {
		all = append(all, one())
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	const others = 3 // places with "lazilyWith(": its own declaration, lazily and programForm
	declared := len(programForms) - others
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		declared += strings.Count(string(text), "lazilyWith(")
	}
	if declared != len(all) {
		t.Fatalf("%d expressions have words, %d are tested", declared, len(all))
	}
	return all
}

// Whatever an expression matches has one of its words. If one word is left out, that is no longer true.
func TestEachMatchHasAWord(t *testing.T) {
	isNeeded := map[string]bool{}
	for _, x := range expressionsWithWords(t) {
		tree, err := syntax.Parse(x.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		program, err := syntax.Compile(tree.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if text, isFound := findMatchWithout(program, x.words); isFound {
			t.Errorf("%q has none of the words %q of %s", text, x.words, x)
		}
		for i, word := range x.words {
			others := slices.Delete(slices.Clone(x.words), i, i+1)
			_, isFound := findMatchWithout(program, others)
			isNeeded[word] = isNeeded[word] || isFound
		}
	}
	for word, is := range isNeeded {
		if !is {
			t.Errorf("each match with the word %q has another word", word)
		}
	}
}

// position is how far a text is that an expression may match.
type position struct {
	instruction uint32 // of the program of the expression
	recent      string // the longest end of the text with which a word begins, in lower case
}

// findMatchWithout finds a text of ASCII without any of the words that an expression matches. It covers all texts, as
// two at the same position continue in the same way. It ignores the borders of words and lines, so it may find a text that the
// expression does not match because of them, but it misses none that the expression matches.
func findMatchWithout(program *syntax.Prog, words []string) (text string, isFound bool) {
	begins := map[string]bool{"": true}
	for _, word := range words {
		for i := range word {
			begins[word[:i]] = true
		}
	}
	first := position{instruction: uint32(program.Start)}
	texts, queue := map[position]string{first: ""}, []position{first}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		text := texts[at]
		visit := func(next position, text string) {
			if _, isKnown := texts[next]; !isKnown {
				texts[next] = text
				queue = append(queue, next)
			}
		}
		switch one := program.Inst[at.instruction]; one.Op {
		case syntax.InstMatch:
			return text, true
		case syntax.InstAlt, syntax.InstAltMatch:
			visit(position{one.Out, at.recent}, text)
			visit(position{one.Arg, at.recent}, text)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			visit(position{one.Out, at.recent}, text)
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			for c := range rune(utf8.RuneSelf) {
				if !one.MatchRune(c) {
					continue
				}
				recent := strings.ToLower(at.recent + string(c))
				if slices.ContainsFunc(words, func(word string) bool { return strings.HasSuffix(recent, word) }) {
					continue
				}
				for !begins[recent] {
					recent = recent[1:]
				}
				visit(position{one.Out, recent}, text+string(c))
			}
		}
	}
	return "", false
}

// What an expression is not tried on, it does not match.
func TestTextsWithoutWordsDoNotMatch(t *testing.T) {
	lines := slices.Concat(secretForms(), secretTexts(), publicLines(), hostileParts())
	texts := slices.Clone(lines)
	for _, line := range lines {
		texts = append(texts, strings.ReplaceAll(line, "@", planted), strings.ToUpper(line), strings.ToLower(line),
			strings.ReplaceAll(line, "k", "\u212a"), strings.ReplaceAll(line, "s", "\u017f"))
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 { // three parts of lines each
		text := ""
		for range 3 {
			line := lines[random.IntN(len(lines))]
			begin := random.IntN(len(line))
			text += line[begin : begin+1+random.IntN(len(line)-begin)]
		}
		texts = append(texts, text)
	}
	for _, x := range expressionsWithWords(t) {
		skipped := 0
		for _, text := range texts {
			if x.canMatch(text) {
				continue
			}
			if skipped++; x.Regexp.MatchString(text) {
				t.Errorf("%q is not tried on %q", x, text)
			}
		}
		if skipped < len(lines) {
			t.Errorf("%s is tried on all but %d of %d texts", x, skipped, len(texts))
		}
	}
}
