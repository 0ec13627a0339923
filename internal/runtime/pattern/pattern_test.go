package pattern

import (
	"errors"
	"regexp/syntax"
	"strings"
	"testing"
)

func TestUsualPatternsAreAccepted(t *testing.T) {
	for _, pattern := range []string{
		`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?){0,10}$`,
		`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`, `^sha256:[a-f0-9]{64}$`, `^.{1,1000}$`,
		`^\p{L}[\p{L} '-]{0,80}$`,
		`^(?i)(mon|tues|wednes|thurs|fri|satur|sun)day$`, `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,9})?Z$`, "",
	} {
		if _, err := Parse(pattern); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func TestPatternsAreMeasuredFromAbove(t *testing.T) {
	for _, pattern := range []string{
		"", "a", "abc", "a|b|c", "(a)(b)", "a*", "a+?", "a?", "a{3}", "a{3,}", "a{0,}", "a{1,}", "a{0,7}", "(a|b){2,5}?",
		"(?:(?:ab){3}c){4,9}", "[a-z]{10}", `\pL`, "^$",
		`\bx\B`, "(?i)straße", "(?s).", "[^a]", "(?:)", "(?:){9}", "x**", "(?P<n>x){0}", "((a{3}){0,4}){2,}", "a{1000}",
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			continue
		}
		units := instructionsOf(parsed)
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if units+2 < len(program.Inst) {
			t.Errorf("%q: %d instructions, measured %d", pattern, len(program.Inst), units)
		}
	}
}

func TestAPatternThatStandsForALargeProgramIsNotCompiled(t *testing.T) {
	for _, source := range []string{"(?:a{100}){100}", strings.Repeat("a", MaxBytes) + "b", "("} {
		if _, err := Compile(source, MaxUnits); err == nil {
			t.Errorf("%.40q was compiled", source)
		}
	}
	if _, err := Compile("a{20}", 10); !errors.Is(err, ErrTooComplex) {
		t.Errorf("more units than the caller permits: %v", err)
	}
}

func TestATextIsNotSearchedBeyondTheWork(t *testing.T) {
	p, err := Compile("a{20}b", 100)
	if err != nil {
		t.Fatal(err)
	}
	if matched, err := p.Match(strings.Repeat("a", 20)+"b", 10_000); !matched || err != nil {
		t.Errorf("a short text: %t, %v", matched, err)
	}
	if _, err := p.Match(strings.Repeat("a", 10_000), 10_000); !errors.Is(err, ErrTooMuchWork) {
		t.Errorf("a long text: %v", err)
	}
}

func TestEveryPatternThatIsParsedIsCompiled(t *testing.T) {
	for source, text := range map[string]string{
		`^\Qa.b(`: "a.b(c", `\Q`: "", `^\Qa\`: `a\b`, `^\Qa.\Eb`: "a.bc", `a|\Qb)`: "b)", `^(\Qa)\E)`: "a)",
	} {
		if _, err := Parse(source); err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		p, err := Compile(source, MaxUnits)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if matched, err := p.Match(text, 1<<20); !matched || err != nil {
			t.Errorf("%s matches %q: %t, %v", source, text, matched, err)
		}
	}
}
