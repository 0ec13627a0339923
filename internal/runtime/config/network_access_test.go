package config

import (
	"math/rand"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// list reads "a b -c": what is allowed, and with a minus what is blocked.
func list(words string) *v1alpha1.NetworkAccess {
	access := &v1alpha1.NetworkAccess{}
	for word := range strings.FieldsSeq(words) {
		if blocked, ok := strings.CutPrefix(word, "-"); ok {
			access.Blocked = append(access.Blocked, v1alpha1.NetworkPattern(blocked))
		} else {
			access.Allowed = append(access.Allowed, v1alpha1.NetworkPattern(word))
		}
	}
	return access
}

// foldLists folds layers with these lists; an empty one stands for a layer without.
func foldLists(lists ...string) NetworkAccess {
	layers := make([]v1alpha1.ConfigLayer, len(lists))
	for i, words := range lists {
		if words != "" {
			layers[i].NetworkAccess = list(words)
		}
	}
	return Fold(layers...).Network
}

func permits(t *testing.T, n NetworkAccess, raw string) bool {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return n.Permits(u)
}

// Rules: CFG-05.
func TestNetworkPatterns(t *testing.T) {
	for pattern, test := range map[string]struct{ inside, outside string }{
		"example.org": {
			inside: "https://example.org http://example.org:8080/a?b=c https://EXAMPLE.ORG./x",
			outside: "https://www.example.org https://example.org.evil.net https://notexample.org " +
				"https://evil.net/example.org https://evil.net?example.org https://example.org@evil.net",
		},
		"Example.ORG": {inside: "https://example.org"},
		"*.example.org": {
			inside:  "https://example.org https://a.example.org https://a.b.Example.org:444/x",
			outside: "https://badexample.org https://example.org.evil.net https://org",
		},
		"https://example.org": {
			inside:  "https://example.org https://example.org:443/ https://EXAMPLE.org/a?b",
			outside: "http://example.org https://example.org:8443 https://example.org.evil.net https://www.example.org",
		},
		"https://example.org:443/v1/": {
			inside: "https://example.org/v1/ https://example.org/v1/a https://example.org/v1/a/./b " +
				"https://example.org:0443/v1/a https://example.org/v1/a..b/...;c/x%252fy " +
				"https://example.org/v1/100%2525 https://example.org/v1/a?b=/../c https://example.org/v1/%5ca;b=..",
			outside: "https://example.org/v1/a/../b https://example.org/v1/..;/admin https://example.org/v1/a/..;x=y/b " +
				"https://example.org/v1/%252e%252e/admin " +
				"https://example.org/v1/..%5Cadmin https://example.org/v1/a%5c..%5c..%5cadmin " +
				"https://example.org/v1/.%252e%253b/admin https://example.org/v1/..%2fadmin " +
				"https://example.org/v1/%25zz/%252e%252e/x https://example.org/v1/..%3fx https://example.org/v1/..%2523 " +
				"https://example.org/v1/..%00/x https://example.org/v1/.%09. " +
				"https://example.org/v1/..%20/x https://example.org/v1/%25252525252525252525252e https://example.org/v1 " +
				"https://example.org/V1/a https://example.org/v2/ https://example.org/v1/../v2 https://example.org/v1/%2e%2e/v2 " +
				"https://example.org/v1/..%2fv2 https://example.org//v1/",
		},
		"https://example.org/v1": {
			inside:  "https://example.org/v1 https://example.org/v1/a https://example.org/v1beta",
			outside: "https://example.org/v",
		},
		"http://example.org:80/": {
			inside: "http://example.org http://example.org:80/x", outside: "https://example.org http://example.org:8080/",
		},
		"https://example.org/a%20b/": {
			inside: "https://example.org/a%20b/c", outside: "https://example.org/a%2520b/c https://example.org/a/",
		},
		"https://[2001:DB8:0:0::1]:8443/": {inside: "https://[2001:db8::1]:8443/x", outside: "https://[2001:db8::1]/x"},
		"192.0.2.7": {
			inside: "https://192.0.2.7/ https://[::ffff:192.0.2.7]/", outside: "https://192.0.2.70/",
		},
		"https://user@example.org/": {outside: "https://example.org/ https://user@example.org/"},
		"ftp://example.org/":        {outside: "ftp://example.org/ https://example.org/"},
		"https://":                  {outside: "https://example.org/"},
		"https://exa mple.org/":     {outside: "https://example.org/"},
	} {
		t.Run(pattern, func(t *testing.T) {
			patterns := []v1alpha1.NetworkPattern{v1alpha1.NetworkPattern(pattern)}
			allowed := Fold(v1alpha1.ConfigLayer{NetworkAccess: &v1alpha1.NetworkAccess{Allowed: patterns}}).Network
			blocked := Fold(v1alpha1.ConfigLayer{NetworkAccess: &v1alpha1.NetworkAccess{Blocked: patterns}}).Network
			for raw := range strings.FieldsSeq(test.inside) {
				if !permits(t, allowed, raw) || permits(t, blocked, raw) {
					t.Errorf("%s is not within", raw)
				}
			}
			for raw := range strings.FieldsSeq(test.outside) {
				if permits(t, allowed, raw) {
					t.Errorf("%s is within", raw)
				}
			}
		})
	}
}

// What is blocked is blocked however it is written.
func TestBlockedHoweverItIsWritten(t *testing.T) {
	n := foldLists("-https://example.org/admin/ -inside.example -https://whole.example/")
	for raw, want := range map[string]bool{
		"https://example.org/admin/x":          false,
		"https://example.org/a/../admin/x":     false,
		"https://example.org/a/%2e%2e/admin/x": false,
		"https://example.org/%61dmin/x":        false,
		"https://example.org:443/admin/x":      false,
		"https://INSIDE.example./":             false,
		"https://example.org/admins":           true,
		"https://elsewhere.example/admin/x":    true,
		"https://deep.inside.example/":         true,
		"https://example.org/x?y=/../admin/":   true,
		"https://example.org:8443/admin/x":     true,
		// Who knows where these lead.
		"https://example.org/x/..%2fadmin/../y":  false,
		"https://example.org/x/..;/admin/":       false,
		"https://example.org/x/%252e%252e/admin": false,
		"https://example.org/x/..%5cadmin":       false,
		"https://example.org/..":                 false,
		// These lead to another server at least.
		"https://example.org:8443/x/..;/admin/": true,
		"http://example.org/x/..;/admin/":       true,
		"https://elsewhere.example/x/..;/admin": true,
		"https://whole.example/x":               false,
		"http://whole.example/x/..;/":           true,
	} {
		if got := permits(t, n, raw); got != want {
			t.Errorf("%s: permitted is %v", raw, got)
		}
	}
}

func TestAURLWithoutAHost(t *testing.T) {
	for lists, want := range map[string]bool{
		"": true, "-example.org": true, "example.org": false, "*.org -example.org": false,
	} {
		if got := permits(t, foldLists(lists), "mailto:ann"); got != want {
			t.Errorf("with %q: permitted is %v", lists, got)
		}
	}
}

// Rules: CFG-05, VEC-18.
func TestLayersNarrow(t *testing.T) {
	for name, test := range map[string]struct {
		lists     []string
		permitted string
		refused   string
	}{
		"no list": {permitted: "https://a.example"},
		"the upper one's, when the lower has none": {
			lists: []string{"a.example", "", "-b.example"}, permitted: "https://a.example",
			refused: "https://c.example https://b.example",
		},
		"the lower one's, when the upper has none": {
			lists: []string{"-b.example", "a.example"}, permitted: "https://a.example",
			refused: "https://c.example https://b.example",
		},
		"addresses that both allow": {
			lists:     []string{"*.a.example b.example", "x.a.example *.b.example b.example c.example"},
			permitted: "https://x.a.example https://b.example",
			refused:   "https://a.example https://y.a.example https://c.example https://x.b.example",
		},
		"a domain within a domain": {
			lists: []string{"*.example", "*.a.example"}, permitted: "https://a.example https://x.a.example",
			refused: "https://b.example https://example",
		},
		"a domain as wide as the upper one": {
			lists: []string{"*.example", "*.example"}, permitted: "https://x.example",
		},
		"a host is no domain": {
			lists: []string{"a.example", "*.a.example"}, refused: "https://a.example https://x.a.example",
		},
		"a URL within a domain": {
			lists: []string{"*.example", "https://a.example/v1/"}, permitted: "https://a.example/v1/x",
			refused: "https://a.example/v2 http://a.example/v1/",
		},
		"a URL within a URL": {
			lists: []string{"https://a.example/v1/", "https://A.example:443/v1/x/"}, permitted: "https://a.example/v1/x/y",
			refused: "https://a.example/v1/y",
		},
		"a URL that only seems to be within": {
			lists:   []string{"https://a.example/v1/", "https://a.example/v1/../v2/"},
			refused: "https://a.example/v2/ https://a.example/v1/../v2/ https://a.example/v1/x",
		},
		"a host is never within a URL": {
			lists: []string{"https://a.example/", "a.example"}, refused: "https://a.example/",
		},
		"nothing in common": {
			lists: []string{"a.example", "b.example"}, refused: "https://a.example https://b.example",
		},
		"nothing in common, and no layer widens it": {
			lists:   []string{"a.example", "b.example", "a.example", "*.example"},
			refused: "https://a.example https://b.example https://c.example",
		},
		"blocks add up": {
			lists: []string{"-a.example", "-b.example", "*.example"}, permitted: "https://c.example",
			refused: "https://a.example https://b.example",
		},
		"a host with a path that may lead upwards": {
			lists: []string{"a.example https://b.example/"}, permitted: "https://a.example/x/..;/y https://b.example/x/..;/y",
		},
		"a blocked address stays blocked": {
			lists: []string{"-a.example", "a.example"}, refused: "https://a.example",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := foldLists(test.lists...)
			for raw := range strings.FieldsSeq(test.permitted) {
				if !permits(t, n, raw) {
					t.Errorf("%s is refused", raw)
				}
			}
			for raw := range strings.FieldsSeq(test.refused) {
				if permits(t, n, raw) {
					t.Errorf("%s is permitted", raw)
				}
			}
		})
	}
}

// For all layers: an address that all of them together permit is permitted by each, and one that any of them blocks is
// refused.
// Rules: CFG-05.
func TestNoLayerWidensWhatTheOthersPermit(t *testing.T) {
	random := rand.New(rand.NewSource(3))
	hosts := []string{"example", "a.example", "x.a.example", "b.example", "xa.example"}
	pick := func() string {
		host := hosts[random.Intn(len(hosts))]
		return []string{
			host, "*." + host, "https://" + host + "/v1/", "https://" + host + "/", "http://" + host + "/v1",
		}[random.Intn(5)]
	}
	permitted := 0
	for range 20000 {
		lists := make([]string, 1+random.Intn(4))
		for i := range lists {
			var words []string
			for range random.Intn(3) {
				words = append(words, []string{"", "-"}[random.Intn(2)]+pick())
			}
			lists[i] = strings.Join(words, " ")
		}
		raw := []string{"https://", "http://"}[random.Intn(2)] + hosts[random.Intn(len(hosts))] + []string{
			"", "/v1/x", "/v1/../v2", "/v2",
		}[random.Intn(4)]
		if !permits(t, foldLists(lists...), raw) {
			continue
		}
		permitted++
		for _, words := range lists {
			if !permits(t, foldLists(words), raw) {
				t.Fatalf("%q together permit %s, and %q alone does not", lists, raw, words)
			}
		}
	}
	if permitted == 0 {
		t.Error("nothing was permitted")
	}
}

func TestBinds(t *testing.T) {
	job := func(reach v1alpha1.NetworkReach) *v1alpha1.ToolSpec {
		return &v1alpha1.ToolSpec{Job: &v1alpha1.JobTool{Network: reach}}
	}
	with := func(words string, exempt ...string) v1alpha1.ConfigLayer {
		l := v1alpha1.ConfigLayer{NetworkAccess: list(words)}
		l.NetworkAccess.ExemptTools = refs(exempt...)
		return l
	}
	for name, test := range map[string]struct {
		layers []v1alpha1.ConfigLayer
		tool   *v1alpha1.ToolSpec
		want   bool
	}{
		"a Job, without a list": {tool: job(v1alpha1.NetworkReachDefault), want: true},
		"a Job": {
			layers: []v1alpha1.ConfigLayer{with("a.example")}, tool: job(v1alpha1.NetworkReachDefault),
		},
		"a Job without network access": {layers: []v1alpha1.ConfigLayer{with("-a.example")}, tool: job("")},
		"a Job without network": {
			layers: []v1alpha1.ConfigLayer{with("a.example")}, tool: job(v1alpha1.NetworkReachNone), want: true,
		},
		"a request": {
			layers: []v1alpha1.ConfigLayer{with("a.example")}, tool: &v1alpha1.ToolSpec{HTTP: &v1alpha1.HTTPTool{}}, want: true,
		},
		"a client's": {
			layers: []v1alpha1.ConfigLayer{with("a.example")}, tool: &v1alpha1.ToolSpec{Client: &v1alpha1.ClientTool{}},
			want: true,
		},
		"an exempt Job": {
			layers: []v1alpha1.ConfigLayer{with("a.example", "other", "it"), {}}, tool: job(""), want: true,
		},
		"exempt in every list": {
			layers: []v1alpha1.ConfigLayer{with("a.example", "it"), {}, with("-b.example", "it")}, tool: job(""), want: true,
		},
		"exempt in the lower list alone": {
			layers: []v1alpha1.ConfigLayer{with("a.example"), with("-b.example", "it")}, tool: job(""),
		},
		"exempt in the upper list alone": {
			layers: []v1alpha1.ConfigLayer{with("a.example", "it"), with("-b.example")}, tool: job(""),
		},
		"exempt again below a list that does not do so": {
			layers: []v1alpha1.ConfigLayer{with("a.example", "it"), with("-b.example"), with("-c.example", "it")}, tool: job(""),
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := Fold(test.layers...).Network
			if got := n.Binds("it", test.tool); got != test.want {
				t.Errorf("Binds = %v", got)
			}
			tool := &v1alpha1.Tool{Spec: *test.tool}
			tool.Name = "it"
			want := map[bool]Presence{true: Usable, false: Unbound}[test.want]
			if got := n.Presence(tool, Usable); got != want {
				t.Errorf("Presence = %v, want %v", got, want)
			}
			for _, other := range []Presence{Missing, NotReady} {
				if got := n.Presence(tool, other); got != other {
					t.Errorf("Presence of an unusable object = %v, want %v", got, other)
				}
			}
		})
	}
}

// readings are paths that a server may take a URL's for: unescaped so many times, with backslashes for slashes, without
// parameters.
func readings(u *url.URL) []string {
	var found []string
	read := u.EscapedPath()
	for range 4 {
		var segments []string
		for _, segment := range strings.Split(strings.ReplaceAll(read, `\`, "/"), "/") {
			segment, _, _ = strings.Cut(segment, ";")
			segments = append(segments, segment)
		}
		found = append(found, strings.Join(segments, "/"))
		next, err := url.PathUnescape(read)
		if err != nil {
			break
		}
		read = next
	}
	return found
}

// FuzzNetworkAccess holds of any pattern and URL: a list that allows a pattern and one that blocks it never both permit
// a URL, and what is within a narrower list is within the wider. What a path permits does not lead out of it, however
// the URL is read.
// Rules: CFG-05.
func FuzzNetworkAccess(f *testing.F) {
	f.Add("example.org", "https://example.org/v1/", "https://example.org/v1/x")
	f.Add("*.example.org", "*.a.example.org", "https://x.a.example.org/..%2f")
	f.Add("https://h/a%2fb/", "https://h/a/b/", "https://h/a%2Fb/../c")
	f.Add("https://h/v1/", "https://h/v1/x/", "https://h/v1/..;/admin")
	f.Add("https://h/v1/", "https://h/", "https://h/v1/%252e%252e/admin")
	f.Add("https://h/v1/", "h", "https://h/v1/a/..%5C..%5cadmin")
	f.Fuzz(func(t *testing.T, upper, lower, raw string) {
		u, err := url.Parse(raw)
		if err != nil {
			return
		}
		allow := func(patterns ...string) NetworkAccess {
			var layers []v1alpha1.ConfigLayer
			for _, p := range patterns {
				layers = append(
					layers,
					v1alpha1.ConfigLayer{
						NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{v1alpha1.NetworkPattern(p)}},
					},
				)
			}
			return Fold(layers...).Network
		}
		blocked := Fold(
			v1alpha1.ConfigLayer{
				NetworkAccess: &v1alpha1.NetworkAccess{Blocked: []v1alpha1.NetworkPattern{v1alpha1.NetworkPattern(upper)}},
			},
		).Network
		if allow(upper).Permits(u) && blocked.Permits(u) {
			t.Errorf("%q is allowed by %q and not blocked by it", raw, upper)
		}
		if allow(upper, lower).Permits(u) && (!allow(upper).Permits(u) || !allow(lower).Permits(u)) {
			t.Errorf("%q is permitted by %q over %q and not by each", raw, lower, upper)
		}
		for _, read := range readings(u) {
			if path.Clean(read) != read && allow("https://"+u.Hostname()+"/v1/").Permits(u) &&
				!strings.HasPrefix(path.Clean(read)+"/", "/v1/") {
				t.Errorf("%q is permitted below /v1/ and may be read as %q", raw, read)
			}
		}
		if allow(upper, lower, upper).Permits(u) && !allow(upper, lower).Permits(u) {
			t.Errorf("%q below %q and %q opens %q", upper, upper, lower, raw)
		}
	})
}
