package config

import (
	"context"
	"fmt"
	"math/rand"
	"reflect"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// harnesses builds a getter from "name>parent" words; a word without > has no parent.
func harnesses(words ...string) func(string) *v1alpha1.Harness {
	known := map[string]*v1alpha1.Harness{}
	for _, word := range words {
		name, parent, has := strings.Cut(word, ">")
		harness := &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if has {
			harness.Spec.ParentRef = ref(parent)
		}
		known[name] = harness
	}
	return func(name string) *v1alpha1.Harness { return known[name] }
}

func names(chain []*v1alpha1.Harness) string {
	var list []string
	for _, harness := range chain {
		list = append(list, harness.Name)
	}
	return strings.Join(list, " ")
}

// line is a chain of n Harnesses: h1 is the leaf, h<n> the root.
func line(n int) []string {
	var words []string
	for i := 1; i < n; i++ {
		words = append(words, fmt.Sprintf("h%d>h%d", i, i+1))
	}
	return append(words, fmt.Sprintf("h%d", n))
}

func TestChain(t *testing.T) {
	for name, test := range map[string]struct {
		words   []string
		leaf    string
		want    string
		problem ChainProblem
		reason  string
		parts   []string
	}{
		"one without a parent":  {words: []string{"a"}, leaf: "a", want: "a"},
		"root first, leaf last": {words: []string{"a>b", "b>c", "c", "z>a"}, leaf: "a", want: "c b a"},
		"sixteen are allowed": {
			words: line(16), leaf: "h1", want: "h16 h15 h14 h13 h12 h11 h10 h9 h8 h7 h6 h5 h4 h3 h2 h1",
		},
		"a leaf that does not exist": {
			words: []string{"a"}, leaf: "x", problem: LeafNotFound, reason: v1alpha1.ReasonHarnessNotFound, parts: []string{
				`"x"`,
			},
		},
		"a parent that does not exist": {
			words: []string{
				"a>b", "b>gone",
			}, leaf: "a", want: "b a", problem: ParentNotFound, reason: v1alpha1.ReasonHarnessNotFound,
			parts: []string{`"gone"`, `parentRef of Harness "b"`},
		},
		"seventeen are too many": {
			words: line(17), leaf: "h1", want: "h16 h15 h14 h13 h12 h11 h10 h9 h8 h7 h6 h5 h4 h3 h2 h1",
			problem: ChainTooLong, reason: v1alpha1.ReasonChainTooLong, parts: []string{`"h1"`, "15"},
		},
		"its own parent": {
			words: []string{
				"a>a",
			}, leaf: "a", want: "a", problem: ChainCycle, reason: v1alpha1.ReasonChainTooLong, parts: []string{
				"a -> a",
			},
		},
		"a cycle above": {
			words: []string{"a>b", "b>c", "c>b"}, leaf: "a", want: "c b a",
			problem: ChainCycle, reason: v1alpha1.ReasonChainTooLong, parts: []string{
				`"b" is its own ancestor`, "a -> b -> c -> b",
			},
		},
		"a cycle of sixteen is a cycle": {
			words: append(line(16)[:15], "h16>h1"), leaf: "h1", want: "h16 h15 h14 h13 h12 h11 h10 h9 h8 h7 h6 h5 h4 h3 h2 h1",
			problem: ChainCycle, reason: v1alpha1.ReasonChainTooLong, parts: []string{`"h1" is its own ancestor`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			chain, err := Chain(test.leaf, harnesses(test.words...))
			if got := names(chain); got != test.want {
				t.Errorf("chain = %s, want %s", got, test.want)
			}
			if test.problem == "" {
				if err != nil {
					t.Fatalf("error = %v, want none", err)
				}
				return
			}
			if err == nil || err.Problem != test.problem || err.Reason() != test.reason || err.Leaf != test.leaf {
				t.Fatalf("error = %+v, want problem %s and reason %s", err, test.problem, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not contain %s", err, part)
				}
			}
		})
	}
}

// Whatever the parents are, a walk ends, and a chain without an error leads from a root to the leaf by parents.
func TestChainOfAnyGraph(t *testing.T) {
	random := rand.New(rand.NewSource(2))
	problems := map[ChainProblem]int{}
	for range 5000 {
		var words []string
		count := 1 + random.Intn(40)
		for i := range count {
			if random.Intn(12) == 0 {
				words = append(words, fmt.Sprintf("h%d", i))
				continue
			}
			words = append(words, fmt.Sprintf("h%d>h%d", i, random.Intn(count+1)))
		}
		get := harnesses(words...)
		chain, err := Chain("h0", get)
		if len(chain) == 0 || len(chain) > MaxChain || chain[len(chain)-1].Name != "h0" {
			t.Fatalf("chain of %v = %s", words, names(chain))
		}
		for i := 1; i < len(chain); i++ {
			if chain[i].Spec.ParentRef.Name != chain[i-1].Name {
				t.Fatalf("chain of %v = %s: the parent of %s is another one", words, names(chain), chain[i].Name)
			}
		}
		if err != nil {
			problems[err.Problem]++
			continue
		}
		problems["none"]++
		if chain[0].Spec.ParentRef != nil {
			t.Fatalf("chain of %v = %s does not begin at a root", words, names(chain))
		}
	}
	for _, problem := range []ChainProblem{"none", ParentNotFound, ChainCycle, ChainTooLong} {
		if problems[problem] == 0 {
			t.Errorf("no graph had the problem %s: %v", problem, problems)
		}
	}
}

// Rules: BLK-01, CFG-11, VEC-11.
func TestFindBlocker(t *testing.T) {
	missing := &ChainError{Problem: ParentNotFound, Leaf: "leaf", Missing: "root", Path: []string{"leaf"}}
	harness := func(l v1alpha1.Lifecycle) *v1alpha1.Harness {
		return &v1alpha1.Harness{Spec: v1alpha1.HarnessSpec{Lifecycle: l}}
	}
	agent := func(l v1alpha1.Lifecycle) *v1alpha1.Agent {
		return &v1alpha1.Agent{Spec: v1alpha1.AgentSpec{Lifecycle: l}}
	}
	for name, test := range map[string]struct {
		harness *v1alpha1.Harness
		chain   *ChainError
		named   bool
		agent   *v1alpha1.Agent
		want    *Blocker
	}{
		"an active harness":                       {harness: harness(v1alpha1.LifecycleActive)},
		"a harness without a lifecycle is active": {harness: harness("")},
		"an archived harness": {
			harness: harness(v1alpha1.LifecycleArchived), want: &Blocker{
				Dependency: DependencyHarness, State: DependencyArchived,
			},
		},
		"an archived harness with an active agent": {
			harness: harness(v1alpha1.LifecycleArchived), named: true, agent: agent(v1alpha1.LifecycleActive),
			want: &Blocker{Dependency: DependencyHarness, State: DependencyArchived},
		},
		"an archived harness with an archived agent": {
			harness: harness(v1alpha1.LifecycleArchived), named: true, agent: agent(v1alpha1.LifecycleArchived),
			want: &Blocker{Dependency: DependencyHarness, State: DependencyArchived},
		},
		"an archived harness with an agent that does not exist": {
			harness: harness(v1alpha1.LifecycleArchived), named: true,
			want: &Blocker{Dependency: DependencyHarness, State: DependencyArchived},
		},
		"no harness with an active agent": {
			named: true, agent: agent(v1alpha1.LifecycleActive),
			want: &Blocker{Dependency: DependencyHarness, State: DependencyDeleted},
		},
		"no harness with an archived agent": {
			named: true, agent: agent(v1alpha1.LifecycleArchived),
			want: &Blocker{Dependency: DependencyHarness, State: DependencyDeleted},
		},
		"no harness": {want: &Blocker{Dependency: DependencyHarness, State: DependencyDeleted}},
		"the harness comes before the agent": {
			named: true, want: &Blocker{Dependency: DependencyHarness, State: DependencyDeleted},
		},
		"an active agent": {harness: harness(""), named: true, agent: agent(v1alpha1.LifecycleActive)},
		"an archived agent": {
			harness: harness(""), named: true, agent: agent(v1alpha1.LifecycleArchived), want: &Blocker{
				Dependency: DependencyAgent, State: DependencyArchived,
			},
		},
		"a named agent that does not exist": {
			harness: harness(""), named: true, want: &Blocker{Dependency: DependencyAgent, State: DependencyDeleted},
		},
		"a missing ancestor comes before the agent": {
			harness: harness(""), chain: missing, named: true,
			want: &Blocker{Dependency: DependencyHarness, State: DependencyIncomplete, Problem: missing.Error()},
		},
		"an agent that is not named does not count": {harness: harness(""), agent: agent(v1alpha1.LifecycleArchived)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := FindBlocker(test.harness, test.chain, test.named, test.agent); !reflect.DeepEqual(got, test.want) {
				t.Errorf("FindBlocker = %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestTheRemedyOfABlockerIsPossible checks that no remedy asks to change the Harness of a Session, which the API
// refuses.
func TestTheRemedyOfABlockerIsPossible(t *testing.T) {
	r := &Resolved{HarnessName: "h", AgentName: "a"}
	for want, b := range map[string]Blocker{
		`Set lifecycle of Harness "h" to Active, or create a Session with another Harness; then create another Turn.`: {
			Dependency: DependencyHarness, State: DependencyArchived,
		},
		`Create Harness "h", or create a Session with another Harness; then create another Turn.`: {
			Dependency: DependencyHarness, State: DependencyDeleted,
		},
		`Set lifecycle of Agent "a" to Active, or change agentRef of the Session; then create another Turn.`: {
			Dependency: DependencyAgent, State: DependencyArchived,
		},
		`Create Agent "a", or change agentRef of the Session; then create another Turn.`: {
			Dependency: DependencyAgent, State: DependencyDeleted,
		},
	} {
		if got := b.remedy(r); got != want {
			t.Errorf("the remedy is %q, want %q", got, want)
		}
	}
}

// Rules: BLK-03.
func TestBlockerReportsWhatHappened(t *testing.T) {
	b := Blocker{Dependency: DependencyAgent, State: DependencyArchived}
	if got, want := b.Sentence(), "Execution stopped because the assigned agent was archived."; got != want {
		t.Errorf("Sentence = %q, want %q", got, want)
	}
	if got, want := b.Fields(), map[string]string{
		"dependency": "agent",
		"state":      "archived",
	}; !reflect.DeepEqual(
		got,
		want,
	) {
		t.Errorf("Fields = %v, want %v", got, want)
	}
}

// TestAChainThatDoesNotResolveInFullBlocks: without its ancestors a Harness could permit what they do not.
func TestAChainThatDoesNotResolveInFullBlocks(t *testing.T) {
	layer := func(name, parent string) *v1alpha1.Harness {
		harness := &v1alpha1.Harness{}
		harness.Name = name
		if parent != "" {
			harness.Spec.ParentRef = &v1alpha1.LocalReference{Name: parent}
		}
		return harness
	}
	long := []*v1alpha1.Harness{}
	for i := range MaxChain + 1 {
		long = append(long, layer("h"+strconv.Itoa(i), "h"+strconv.Itoa(i+1)))
	}
	for name, test := range map[string]struct {
		harnesses []*v1alpha1.Harness
		parts     string
	}{
		"a parent is missing": {
			[]*v1alpha1.Harness{layer("h0", "h1")}, `Harness "h1", the parent of Harness "h0", does not exist`,
		},
		"a grandparent is missing": {
			[]*v1alpha1.Harness{layer("h0", "h1"), layer("h1", "h2")}, `Harness "h2", the parent of Harness "h1"`,
		},
		"a cycle":                  {[]*v1alpha1.Harness{layer("h0", "h1"), layer("h1", "h0")}, "its own ancestor"},
		"a chain that is too long": {long, "more than 15 ancestors"},
	} {
		t.Run(name, func(t *testing.T) {
			source := objects{}
			for _, harness := range test.harnesses {
				source[harness.Name] = harness
			}
			session := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "h0"}}}
			resolved, err := Resolve(t.Context(), source, session)
			if err != nil {
				t.Fatal(err)
			}
			blocker := resolved.Blocker()
			if blocker == nil || !strings.Contains(blocker.Problem, test.parts) {
				t.Fatalf("blocked by %+v, want %s", blocker, test.parts)
			}
			if reason, message := resolved.Problem(); reason == "" || !strings.HasPrefix(message, blocker.Problem) {
				t.Errorf("the Session reports %s, %q", reason, message)
			}
		})
	}
}

// objects are the Harnesses of a namespace without anything else.
type objects map[string]*v1alpha1.Harness

func (o objects) Harness(_ context.Context, name string) (*v1alpha1.Harness, error) {
	return o[name], nil
}

func (objects) Agent(context.Context, string) (*v1alpha1.Agent, error) { return nil, nil }

func (objects) Tool(context.Context, string) (*v1alpha1.Tool, error) { return nil, nil }

func (objects) Capability(context.Context, string) (*v1alpha1.Capability, error) {
	return nil, nil
}

func (objects) MCPServer(context.Context, string) (*v1alpha1.MCPServer, error) { return nil, nil }

func (objects) Model(context.Context, string) (*v1alpha1.Model, error) { return nil, nil }

func (objects) Models(context.Context) ([]v1alpha1.Model, error) { return nil, nil }
