package redact

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"
	"unicode"
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
	declared := len(programForms)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		declared += strings.Count(string(text), "= lazilyWith(")
	}
	if declared != len(all) {
		t.Fatalf("%d expressions have words, %d are tested", declared, len(all))
	}
	return all
}

// Whatever an expression matches has one of its words. The texts are generated from the expression, so that each of its
// alternatives occurs.
func TestEachMatchHasAWord(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range expressionsWithWords(t) {
		tree, err := syntax.Parse(x.String(), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		matches, reported := 0, 0
		used := map[string]bool{}
		for range 5000 {
			var b strings.Builder
			writeMatch(&b, random, tree)
			text := b.String()
			if !x.Regexp.MatchString(text) { // as of what must stand at the border of a word
				continue
			}
			matches++
			if !x.canMatch(text) && reported < 3 {
				reported++
				t.Errorf("%q has none of the words %q of %s", text, x.words, x)
			}
			for _, word := range x.words {
				used[word] = used[word] || strings.Contains(strings.ToLower(text), word)
			}
		}
		if matches < 1000 {
			t.Errorf("only %d texts match %s", matches, x)
		}
		for _, word := range x.words {
			if word != strings.ToLower(word) || !used[word] {
				t.Errorf("no match of %s has the word %q", x, word)
			}
		}
	}
}

// writeMatch writes a text of an expression. What it repeats is repeated as seldom as possible, or a little more often.
func writeMatch(b *strings.Builder, random *rand.Rand, tree *syntax.Regexp) {
	repeat := func(least, most int) {
		for range least + random.IntN(most-least+1) {
			writeMatch(b, random, tree.Sub[0])
		}
	}
	switch tree.Op {
	case syntax.OpLiteral:
		for _, c := range tree.Rune {
			for tree.Flags&syntax.FoldCase != 0 && random.IntN(2) == 0 {
				if c = unicode.SimpleFold(c); c > unicode.MaxASCII && random.IntN(20) > 0 {
					c = unicode.SimpleFold(c)
				}
			}
			b.WriteRune(c)
		}
	case syntax.OpCharClass:
		var all []rune // of ASCII, with which words are not found by other letters
		for i := 0; i < len(tree.Rune); i += 2 {
			for c := max(tree.Rune[i], '\t'); c <= min(tree.Rune[i+1], '~'); c++ {
				all = append(all, c)
			}
		}
		b.WriteRune(all[random.IntN(len(all))])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte(byte(' ' + random.IntN('~'-' ')))
	case syntax.OpCapture:
		writeMatch(b, random, tree.Sub[0])
	case syntax.OpStar:
		repeat(0, 2)
	case syntax.OpPlus:
		repeat(1, 3)
	case syntax.OpQuest:
		repeat(0, 1)
	case syntax.OpRepeat:
		repeat(tree.Min, tree.Min+min(2, max(0, tree.Max-tree.Min)))
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			writeMatch(b, random, sub)
		}
	case syntax.OpAlternate:
		writeMatch(b, random, tree.Sub[random.IntN(len(tree.Sub))])
	}
}

// What an expression is not tried on, it does not match.
func TestTextsWithoutWordsDoNotMatch(t *testing.T) {
	lines := slices.Concat(secretForms(), secretTexts(), publicLines(), hostileParts())
	texts := slices.Clone(lines)
	for _, line := range lines {
		texts = append(texts, strings.ReplaceAll(line, "@", planted), strings.ToUpper(line), strings.ToLower(line),
			strings.ReplaceAll(line, "k", "\u212a"), strings.ReplaceAll(line, "s", "\u017f"))
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
