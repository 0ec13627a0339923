package main

import (
	"reflect"
	"strings"
	"testing"
)

const source = `package turns

// Rules: TURN-01.
func TestPlain(t *testing.T) {}

// TestTable has rows, of which one names its rule. Rules: TURN-02, SM-01.
func TestTable(t *testing.T) {
	for name, want := range map[string]int{
		// TURN-03 decides.
		"a row": 1,
		"another": 2,
	} {
		_ = name // TURN-04
	}
}

// helper names TURN-05 and is no test.
func helper() {}

var rows = []row{
	// Rules: TURN-06.
	{name: "a row of the package"},
}

var _ = Describe("A Turn", func() {
	// Rules: TURN-07.
	It("waits", func() {})
	It("ends as TURN-08 demands", func() {})
	Context("of a Session", func() {
		It("runs", func() {
			// TURN-07 again.
		})
	})
})
`

func TestTestsNameTheirRules(t *testing.T) {
	held, err := testsOf("turns_test.go", source)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"TURN-01": {"TestPlain"},
		"TURN-02": {"TestTable"},
		"SM-01":   {"TestTable"},
		"TURN-03": {"TestTable/a row"},
		"TURN-04": {"TestTable"},
		"TURN-06": {"a row of the package"},
		"TURN-07": {"A Turn waits", "A Turn of a Session runs"},
		"TURN-08": {"A Turn ends as TURN-08 demands"},
	}
	if !reflect.DeepEqual(held, want) {
		t.Errorf("the tests are %v, want %v", held, want)
	}
}

func TestASuiteOutsideTestFilesCounts(t *testing.T) {
	held, err := testsOf("suite.go", `package suite

// Rules: DUR-01.
func AClaimIsUnique(t *testing.T) {}

// Claim implements DUR-02.
func Claim(id string) {}

// rows are examples of DUR-03.
var rows = map[string]int{"a row": 1}
`)
	if want := map[string][]string{"DUR-01": {"AClaimIsUnique"}}; err != nil || !reflect.DeepEqual(held, want) {
		t.Errorf("the tests are %v, want %v; error %v", held, want, err)
	}
}

const table = `| rule | demands | difference |
| --- | --- | --- |
| GAP-03 | Decision: none. | |
| TURN-01 | One. | |
| TURN-02 | Two. | Does not apply: there is no second. |
| VEC-03 | Three. | Not yet: nothing does so. |
`

func TestEveryRuleHasATestOrAReason(t *testing.T) {
	rules := rulesOf(table)
	if len(rules) != 3 {
		t.Fatalf("the rules are %v", rules)
	}
	if _, err := render(rules, nil); err == nil || !strings.Contains(err.Error(), "no test names TURN-01:") {
		t.Errorf("error %v", err)
	}
	document, err := render(rules, map[string][]test{"TURN-01": {
		{folder: "test/turns", name: "a|b"},
		{folder: "internal/runtime/plan", name: "TestB"},
		{folder: "internal/runtime/plan", name: "TestA"},
		{folder: "internal/controller/turn", name: "TestA"},
		{folder: "test/e2e", name: "runs"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"\n## TURN\n",
		"\n| TURN-01 | unit: `TestA`, `TestB`<br>API server: `a\\|b`<br>cluster: `runs` |\n",
		"\n| TURN-02 | Does not apply: there is no second. |\n",
		"\n| VEC-03 | Not yet: nothing does so. |\n",
	} {
		if !strings.Contains(document, row) {
			t.Errorf("the document lacks %q:\n%s", row, document)
		}
	}
}

func TestARuleWithATestDoesNotWaitForIt(t *testing.T) {
	some := []test{{folder: "internal/runtime/plan", name: "TestA"}}
	_, err := render(rulesOf(table), map[string][]test{"TURN-01": some, "TURN-02": some, "VEC-03": some})
	if err == nil || !strings.Contains(err.Error(), "tests name VEC-03, whose last column") {
		t.Errorf("error %v", err)
	}
}
