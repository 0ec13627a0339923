package definition

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// searchServer is an MCPServer with some tools.
func searchServer(tools ...string) *v1alpha1.MCPServer {
	server := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Name: "search", UID: "uid-1", Generation: 2},
		Spec:       v1alpha1.MCPServerSpec{URL: "https://search.example.org/mcp"},
		Status:     v1alpha1.MCPServerStatus{DefinitionBytes: 1000},
	}
	SetDiscovered(&server.Status, &server.Spec)
	for _, name := range tools {
		server.Status.DiscoveredTools = append(server.Status.DiscoveredTools,
			v1alpha1.MCPServerTool{Name: name, Digest: "digest-of-" + name})
	}
	return server
}

// Rules: MCP-03.
func TestTheNameOfAToolOfAServer(t *testing.T) {
	long := strings.Repeat("long_", 20)
	for _, c := range []struct{ server, tool, want string }{
		{"search", "find", "mcp_search__find"},
		{"search", "find_all-2", "mcp_search__find_all-2"},
		{"search", "files/find.all", "mcp_search__files_find_all_"},
		{"search", long, "mcp_search__" + long[:40]},
		{strings.Repeat("s", 32), long, "mcp_" + strings.Repeat("s", 32) + "__"},
	} {
		got := RemoteName(c.server, c.tool)
		if !strings.HasPrefix(got, c.want) || len(got) > 64 || !regexp.MustCompile(`^[a-zA-Z0-9_-]+$`).MatchString(got) {
			t.Errorf("the name of %q is %s, want %s", c.tool, got, c.want)
		}
	}
	names := map[string]string{}
	for _, tool := range []string{"a.b", "a/b", "a_b", "a b", "ä", "ö", long + "1", long + "2"} {
		name := RemoteName("s", tool)
		if other, taken := names[name]; taken {
			t.Errorf("%q and %q have the name %s", tool, other, name)
		}
		names[name] = tool
	}
}

// A model provider refuses a request with two tools of one name.
// Rules: MCP-03.
func TestNoServerHasTwoToolsOfOneName(t *testing.T) {
	made := strings.TrimPrefix(RemoteName("search", "read file"), "mcp_search__")
	tools := OfServer(searchServer("read file", made, "other"))
	if len(tools) != 2 || tools[0].Remote().Tool != "read file" || tools[1].Remote().Tool != "other" {
		t.Errorf("the tools are %d: %s, %s", len(tools), tools[0].Remote().Tool, tools[1].Remote().Tool)
	}
}

// Rules: MCP-01.
func TestAServerCanMakeAToolStricterOnly(t *testing.T) {
	destructive := []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive}
	for name, c := range map[string]struct {
		rule  v1alpha1.SideEffect
		hints []v1alpha1.ToolHint
		want  v1alpha1.SideEffect
	}{
		"no rule":                  {"", nil, v1alpha1.SideEffectAtMostOnce},
		"Pure":                     {v1alpha1.SideEffectPure, nil, v1alpha1.SideEffectPure},
		"Pure and destructive":     {v1alpha1.SideEffectPure, destructive, v1alpha1.SideEffectAtMostOnce},
		"Idempotent":               {v1alpha1.SideEffectIdempotent, destructive, v1alpha1.SideEffectIdempotent},
		"AtMostOnce":               {v1alpha1.SideEffectAtMostOnce, nil, v1alpha1.SideEffectAtMostOnce},
		"no rule, and destructive": {"", destructive, v1alpha1.SideEffectAtMostOnce},
	} {
		server := searchServer("find", "other")
		server.Status.DiscoveredTools[0].Hints = c.hints
		server.Spec.Tools = []v1alpha1.MCPToolRule{{
			Name: "find", SideEffect: c.rule, Policy: v1alpha1.ToolPolicyRequiresApproval, ConcurrencyClass: "one",
		}}
		d := OfServer(server).Find("mcp_search__find")
		if d == nil || d.SideEffect != c.want || d.Policy != v1alpha1.ToolPolicyRequiresApproval ||
			d.ConcurrencyClass != "one" || d.Executor != v1alpha1.ToolExecutorMCP {
			t.Errorf("%s: the definition is %+v", name, d)
		}
		if other := OfServer(server).Find("mcp_search__other"); other.SideEffect != v1alpha1.SideEffectAtMostOnce ||
			other.Policy != "" {
			t.Errorf("%s: a tool without a rule is %+v", name, other)
		}
	}
}

func TestAFilterSelectsTools(t *testing.T) {
	for name, c := range map[string]struct {
		filter *v1alpha1.MCPToolFilter
		want   string
	}{
		"none":    {nil, "find_one find_two remove"},
		"include": {&v1alpha1.MCPToolFilter{Include: []v1alpha1.MCPToolPattern{"remove", "find_o*"}}, "find_one remove"},
		"exclude": {&v1alpha1.MCPToolFilter{Exclude: []v1alpha1.MCPToolPattern{"find_*"}}, "remove"},
		"both": {
			&v1alpha1.MCPToolFilter{Include: []v1alpha1.MCPToolPattern{"*"}, Exclude: []v1alpha1.MCPToolPattern{"*"}}, "",
		},
		"whole name": {&v1alpha1.MCPToolFilter{Include: []v1alpha1.MCPToolPattern{"find"}}, ""},
	} {
		server := searchServer("find_one", "find_two", "remove")
		server.Spec.ToolFilter = c.filter
		var names []string
		for _, d := range OfServer(server) {
			names = append(names, d.Remote().Tool)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: the tools are %q, want %q", name, got, c.want)
		}
	}
}

// Rules: MCP-02.
func TestACallIsPinnedToWhatTheServerHasSaidAndToWhereItGoes(t *testing.T) {
	pinned := v1alpha1.ToolCall{Name: "mcp_search__find"}
	OfServer(searchServer("find")).Find(pinned.Name).Pin(&pinned)
	if pinned.ToolUID != "uid-1" || len(pinned.ToolDigest) != 40 || pinned.SideEffect != v1alpha1.SideEffectAtMostOnce {
		t.Fatalf("the call is %+v", pinned)
	}
	plain := "yes"
	for name, c := range map[string]struct {
		change func(*v1alpha1.MCPServer)
		holds  bool
	}{
		"nothing":      {func(*v1alpha1.MCPServer) {}, true},
		"another tool": {func(s *v1alpha1.MCPServer) { s.Status = searchServer("find", "new").Status }, true},
		"the approval": {func(s *v1alpha1.MCPServer) { s.Spec.RefreshInterval = &metav1.Duration{} }, true},
		"the url":      {func(s *v1alpha1.MCPServer) { s.Spec.URL += "/v2" }, false},
		"a header": {func(s *v1alpha1.MCPServer) {
			s.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "A", Value: &plain}}
		}, false},
		"its definition":   {func(s *v1alpha1.MCPServer) { s.Status.DiscoveredTools[0].Digest = "new" }, false},
		"the server":       {func(s *v1alpha1.MCPServer) { s.UID = "uid-2" }, false},
		"the tool is gone": {func(s *v1alpha1.MCPServer) { s.Status.DiscoveredTools = nil }, false},
		"the class": {func(s *v1alpha1.MCPServer) {
			s.Spec.Tools = []v1alpha1.MCPToolRule{{Name: "find", SideEffect: v1alpha1.SideEffectPure}}
		}, false},
		"the policy": {func(s *v1alpha1.MCPServer) {
			s.Spec.Tools = []v1alpha1.MCPToolRule{{Name: "find", Policy: v1alpha1.ToolPolicyRequiresApproval}}
		}, false},
	} {
		server := searchServer("find")
		c.change(server)
		if got := OfServer(server).Planned(pinned) != nil; got != c.holds {
			t.Errorf("%s: the call holds: %t", name, got)
		}
	}
}

// Rules: MCP-02.
func TestAToolIsCurrentWhileItsServerIsTheOneThatHasListedIt(t *testing.T) {
	plain, long := "yes", strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		change  func(*v1alpha1.MCPServer)
		current bool
	}{
		"nothing":          {func(*v1alpha1.MCPServer) {}, true},
		"a rule":           {func(s *v1alpha1.MCPServer) { s.Spec.Tools = []v1alpha1.MCPToolRule{{Name: "find"}} }, true},
		"the url":          {func(s *v1alpha1.MCPServer) { s.Spec.URL += "/v2" }, false},
		"an older manager": {func(s *v1alpha1.MCPServer) { s.Status.DiscoveredConnection = "" }, false},
		"a header": {func(s *v1alpha1.MCPServer) {
			s.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "A", Value: &plain}}
		}, false},
		"the Secret of a header": {func(s *v1alpha1.MCPServer) {
			s.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "A", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}}}
			SetDiscovered(&s.Status, &s.Spec)
			s.Spec.Headers[0].SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "other", Key: "k"}
		}, false},
		"a large header": {func(s *v1alpha1.MCPServer) {
			s.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "A", Value: &long}}
			SetDiscovered(&s.Status, &s.Spec)
		}, true},
		"another large header": {func(s *v1alpha1.MCPServer) {
			s.Spec.Headers = []v1alpha1.HTTPHeader{{Name: "A", Value: &long}}
			SetDiscovered(&s.Status, &s.Spec)
			s.Spec.Headers[0].Name = "B"
		}, false},
	} {
		server := searchServer("find")
		c.change(server)
		cached := server.DeepCopy()
		LeaveOutConnection(cached)
		d := OfServer(cached).Find("mcp_search__find")
		for _, got := range []bool{
			Discovered(server), Discovered(cached), d.Remote().Current(),
			d.WithServer(&v1alpha1.MCPServer{Spec: server.Spec}).Remote().Current(),
		} {
			if got != c.current {
				t.Errorf("%s: it is current: %t", name, got)
			}
		}
	}
}

func TestTheConnectionOfALargeServerIsLeftOut(t *testing.T) {
	long := strings.Repeat("x", 3000)
	whole := searchServer("find")
	whole.Spec.Headers = []v1alpha1.HTTPHeader{
		{Name: "A", Value: &long}, {Name: "B", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}},
	}
	pinned := v1alpha1.ToolCall{Name: "mcp_search__find"}
	OfServer(whole).Find(pinned.Name).Pin(&pinned)
	cached := whole.DeepCopy()
	LeaveOutConnection(cached)
	LeaveOutConnection(cached)
	text, err := json.Marshal(cached.Spec)
	if err != nil || strings.Contains(string(text), long) || !ConnectionLeftOut(cached) || len(cached.Spec.Headers) != 1 {
		t.Fatalf("the cache has %s", text)
	}
	d := OfServer(cached).Planned(pinned)
	if d == nil || !d.LeftOut() || d.LeftOutBytes() != 1000 {
		t.Fatalf("the definition is %+v", d)
	}
	if read := d.WithServer(whole); !read.Holds(pinned) || read.Remote().Server.Spec.URL != whole.Spec.URL {
		t.Errorf("the whole definition is %+v", read)
	}
	changed := whole.DeepCopy()
	changed.Spec.URL += "/v2"
	if d.WithServer(changed).Holds(pinned) {
		t.Error("a changed server holds the call")
	}
	small := searchServer("find")
	LeaveOutConnection(small)
	if ConnectionLeftOut(small) {
		t.Error("the connection of a small server is left out")
	}
}

func TestTheTextsOfAToolOfAServerAreReadLater(t *testing.T) {
	d := OfServer(searchServer("find")).Find("mcp_search__find")
	whole := d.WithTexts(RemoteTexts{Description: "Finds.", InputSchema: []byte(`{}`), Title: "Find"})
	if description, schema := whole.Offer(); description != "Finds." || string(schema) != "{}" ||
		whole.DisplayName != "Find" || whole.LeftOutBytes() != 0 || whole.Digest() != d.Digest() {
		t.Errorf("the definition is %+v", whole)
	}
}

// Rules: MCP-02.
func TestACallIsPinnedToWhetherTheServerGetsATokenOfTheAgent(t *testing.T) {
	server := searchServer("find")
	SetDiscovered(&server.Status, &server.Spec)
	var call v1alpha1.ToolCall
	OfServer(server).Find("mcp_search__find").Pin(&call)
	server.Spec.Identity = v1alpha1.MCPIdentityNone
	if !Discovered(server) || !OfServer(server).Find("mcp_search__find").Holds(call) {
		t.Error("the default by its name is another definition")
	}
	server.Spec.Identity = v1alpha1.MCPIdentityAgentToken
	if Discovered(server) || OfServer(server).Find("mcp_search__find").Holds(call) {
		t.Error("a call that was planned without a token is sent with one")
	}
}
