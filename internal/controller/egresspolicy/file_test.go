package egresspolicy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	head = "apiVersion: manager.capstan.dev/v1alpha1\nkind: EgressPolicy\n"
	rule = "- {namespaces: [team-a], cidrs: [{cidr: 10.0.0.0/8, ports: [443]}]}\n"
)

// kept is a File and what it has set.
type kept struct {
	*File
	t     *testing.T
	rules []int
}

func newFile(t *testing.T) *kept {
	t.Helper()
	k := &kept{t: t}
	k.File = &File{
		Path: filepath.Join(t.TempDir(), "egress.yaml"),
		Set:  func(p *egress.Policy) { k.rules = append(k.rules, len(p.Rules)) },
	}
	return k
}

func (k *kept) write(text string) {
	k.t.Helper()
	if err := os.WriteFile(k.Path, []byte(text), 0o600); err != nil {
		k.t.Fatal(err)
	}
}

func TestAnInvalidFileIsRefusedAtStart(t *testing.T) {
	k := newFile(t)
	if err := k.Load(); err == nil {
		t.Error("a missing file is accepted")
	}
	k.write(head + "rules:\n- {namespaces: []}\n")
	if err := k.Load(); err == nil || !strings.Contains(err.Error(), "rules[0]: namespaces") || len(k.rules) > 0 {
		t.Errorf("got %v, set %v", err, k.rules)
	}
}

func TestAChangeCountsAndAnInvalidOneLeavesTheOldOne(t *testing.T) {
	k := newFile(t)
	k.write(head + "rules:\n" + rule)
	if err := k.Load(); err != nil {
		t.Fatal(err)
	}
	expect := func(what string, isCurrent float64, rules ...int) {
		t.Helper()
		k.Refresh(t.Context())
		if len(k.rules) != len(rules) || k.rules[len(rules)-1] != rules[len(rules)-1] {
			t.Errorf("%s: set %v, want %v", what, k.rules, rules)
		}
		if got := testutil.ToFloat64(current); got != isCurrent {
			t.Errorf("%s: current is %v, want %v", what, got, isCurrent)
		}
	}
	expect("the same", 1, 1)
	k.write(head + "rules:\n" + rule + rule)
	expect("a change", 1, 1, 2)
	k.write(head + "rules:\n" + rule + "- {}")
	expect("an invalid change", 0, 1, 2)
	expect("the same invalid change", 0, 1, 2)
	k.write(head + "rules:\n" + rule + rule)
	expect("back again", 1, 1, 2)
	if err := os.Remove(k.Path); err != nil {
		t.Fatal(err)
	}
	expect("removed", 0, 1, 2)
	k.write(head)
	expect("no rules", 1, 1, 2, 0)
}
