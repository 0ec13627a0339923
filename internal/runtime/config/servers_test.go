package config

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// someServer is an MCPServer with a tool, whose server was reached if it has a Ready condition.
func someServer(name string, ready metav1.ConditionStatus) *v1alpha1.MCPServer {
	s := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if ready != "" {
		now := metav1.Now()
		s.Status = v1alpha1.MCPServerStatus{
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: ready, Reason: "Some", Message: "Some message.",
			}},
			LastDiscoveryTime: &now,
			DiscoveredTools:   []v1alpha1.MCPServerTool{{Name: "find", Digest: "d"}},
		}
	}
	definition.SetDiscovered(&s.Status, &s.Spec)
	return s
}

// resolvedWith is the configuration of a Session with MCPServers.
func resolvedWith(t *testing.T, servers map[string]*v1alpha1.MCPServer, layers ...[]string) *Resolved {
	t.Helper()
	layer := func(i int) v1alpha1.ConfigLayer { return v1alpha1.ConfigLayer{MCPServers: refs(layers[i]...)} }
	source := namespaced{
		servers:   servers,
		models:    []v1alpha1.Model{someModel("ready", metav1.ConditionTrue)},
		harnesses: map[string]*v1alpha1.Harness{"base": {Spec: v1alpha1.HarnessSpec{ConfigLayer: layer(0)}}},
		tools:     map[string]*v1alpha1.Tool{"a": someTool("a", metav1.ConditionTrue)},
	}
	source.harnesses["base"].Name = "base"
	own := layer(len(layers) - 1)
	own.ModelRef, own.Tools = ref("ready"), refs("a")
	own.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "current_time"}}
	r, err := Resolve(t.Context(), source, &v1alpha1.Session{
		Spec: v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}, ConfigLayer: own},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rules: CFG-03, MCP-04, MCP-05.
func TestTheServersOfAllLayersAddUp(t *testing.T) {
	servers := map[string]*v1alpha1.MCPServer{
		"one": someServer("one", metav1.ConditionTrue), "two": someServer("two", metav1.ConditionTrue),
	}
	r := resolvedWith(t, servers, []string{"two"}, []string{"one", "two"})
	if !slices.Equal(r.Effective.MCPServers, []string{"two", "one"}) {
		t.Errorf("the servers are %q", r.Effective.MCPServers)
	}
	var names []string
	for _, d := range r.Definitions() {
		names = append(names, d.Name)
	}
	if got := strings.Join(names, " "); got != "a mcp_two__find mcp_one__find get_current_time" {
		t.Errorf("the tools are %s", got)
	}
	if reason, message := r.Problem(); reason != "" || r.Blocker() != nil {
		t.Errorf("the problem is %s %s, the blocker %+v", reason, message, r.Blocker())
	}
	without := resolvedWith(t, nil, []string{})
	if len(without.Definitions()) != 2 || without.Blocker() != nil {
		t.Errorf("without servers the tools are %+v", without.Definitions())
	}
}

// Rules: MCP-02.
func TestAToolOfAServerReplacesABuiltInOneOfItsName(t *testing.T) {
	r := resolvedWith(t, map[string]*v1alpha1.MCPServer{"one": someServer("one", metav1.ConditionTrue)}, []string{"one"})
	all := r.Definitions()
	remote, builtin := all.Find("mcp_one__find"), all.Find("get_current_time")
	if remote.Remote() == nil || builtin.Remote() != nil {
		t.Fatalf("the tools are %+v", all)
	}
	before := slices.Index(all, remote) < slices.Index(all, builtin)
	if !before {
		t.Error("built-in tools come first, so that they would replace those of servers")
	}
}

func TestServersThatCannotBeUsed(t *testing.T) {
	servers := map[string]*v1alpha1.MCPServer{
		"fine": someServer("fine", metav1.ConditionTrue), "down": someServer("down", metav1.ConditionFalse),
		"new": someServer("new", ""), "moved": someServer("moved", metav1.ConditionTrue),
	}
	servers["moved"].Spec.URL = "https://elsewhere.example.org"
	var many []string
	for i := range 33 {
		many = append(many, "s"+strings.Repeat("x", i))
	}
	for name, c := range map[string]struct {
		named  []string
		reason string
		says   string
		state  DependencyState
	}{
		"fine":      {named: []string{"fine"}},
		"missing":   {[]string{"fine", "gone"}, v1alpha1.ReasonMCPServerNotFound, `"gone"`, DependencyDeleted},
		"not ready": {[]string{"down"}, v1alpha1.ReasonMCPServerNotReady, "(Some). Some message.", ""},
		// A Turn that has begun goes on: only its calls wait.
		"moved":       {[]string{"moved"}, v1alpha1.ReasonMCPServerNotReady, "url or headers have changed", ""},
		"not reached": {[]string{"new"}, v1alpha1.ReasonMCPServerNotReady, "See its condition", DependencyNotReady},
		"too many":    {many, v1alpha1.ReasonTooManyMCPServers, "33 MCPServers", DependencyDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolvedWith(t, servers, c.named)
			if reason, message := r.Problem(); reason != c.reason || !strings.Contains(message, c.says) {
				t.Errorf("the problem is %s: %s", reason, message)
			}
			b := r.Blocker()
			if (b != nil) != (c.state != "") || b != nil && (b.State != c.state || b.Dependency != DependencyMCPServer ||
				b.Remedy == "" || !strings.Contains(b.Sentence(), "MCP server")) {
				t.Errorf("the blocker is %+v", b)
			}
		})
	}
}
