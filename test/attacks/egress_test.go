package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/egress/policyfile"
)

// destinations are attempts to go beyond what the egress configuration of the operator permits: it lets the other
// tenant reach a Service without encryption, and the attacker the same one with it, and a server of its own.
func destinations(t *testing.T) subject {
	c := newCluster(t)
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := r.URL.Query().Get("to")
		if to == "" {
			to = "/?again=x" + r.URL.Query().Get("again")
		}
		w.Header().Set("Location", c.ports(to))
		w.WriteHeader(http.StatusPermanentRedirect)
	}))
	t.Cleanup(own.Close)
	place := func(s *httptest.Server) netip.AddrPort { return netip.MustParseAddrPort(s.Listener.Addr().String()) }
	policy := &egress.Policy{Rules: []egress.Rule{
		{Namespaces: []string{bystander}, PlainHTTP: true, Services: []egress.ServiceRule{
			{Namespace: shared, Name: "models", Ports: []uint16{80}},
		}},
		{Namespaces: []string{attacker}, Services: []egress.ServiceRule{
			{Namespace: shared, Name: "models", Ports: []uint16{80}},
		}},
		{Namespaces: []string{attacker}, PlainHTTP: true, Ranges: []egress.RangeRule{
			{Prefix: netip.MustParsePrefix(podNetwork), Ports: []uint16{place(own).Port(), place(c.apiServer).Port()}},
		}},
	}}
	try := func(name, namespace, address string, answers ...string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			turned := &turning{[][]string{answers}}
			return send(ctx, c.client(turned, policy, podNetwork), egress.Route{Namespace: namespace}, address)
		}}
	}
	inside, port := c.internal.Listener.Addr().String(), place(own).Port()
	redirect := func(name, to string) attempt {
		return try("a redirect "+name, attacker, fmt.Sprintf("http://rebound.example.org:%d/?to=%s", port, to), podAddress)
	}
	const models = "models." + shared + ".svc"
	return subject{
		name: "The egress configuration",
		classes: []class{
			{name: "a Service that another namespace may reach", refused: true, attempts: []attempt{
				try("by a namespace with a similar name", bystander+"-2", "http://"+models+"/", podAddress),
				try("by a namespace in capitals", strings.ToUpper(bystander), "http://"+models+"/", podAddress),
				try("by the name that stands for all", egress.EveryNamespace, "http://"+models+"/", podAddress),
				try("for no namespace", "", "http://"+models+"/", podAddress),
				try("by its long name", "another", "http://"+models+".cluster.local/", podAddress),
			}},
			{name: "more than the rule for a Service permits", refused: true, attempts: []attempt{
				try("without encryption", attacker, "http://"+models+"/", "127.0.0.2"),
				try("another port", bystander, "http://"+models+":81/", "127.0.0.2"),
				try("another Service", bystander, "http://others."+shared+".svc/", "127.0.0.2"),
				try("the same name in another namespace", bystander, "http://models."+owner+".svc/", "127.0.0.2"),
				try("a part of the name", bystander, "http://x."+models+"/", "127.0.0.2"),
			}},
			{name: "more than the rule for a range permits", refused: true, attempts: []attempt{
				try("a name that is rebound", attacker, fmt.Sprintf("http://rebound.example.org:%d/", port), "127.0.0.2"),
				try("a name that is rebound in IPv6", attacker, fmt.Sprintf("http://rebound.example.org:%d/", port),
					"::ffff:127.0.0.2"),
				try("another port", attacker, "http://rebound.example.org:"+strings.Split(inside, ":")[1]+"/", podAddress),
				try("the address of the API server", attacker, "http://"+c.apiServer.Listener.Addr().String()+"/api"),
				try("an address of the link", attacker, fmt.Sprintf("http://169.254.169.254:%d/", port)),
			}},
			{name: "redirects of a server that is permitted", refused: true, attempts: []attempt{
				redirect("to the API server", "http://"+c.apiServer.Listener.Addr().String()+"/api"),
				redirect("to the internal server", "http://"+inside+"/"),
				redirect("to the internal server over TLS", "https://"+inside+"/"),
				redirect("to the Service of others", "http://models."+owner+".svc/"),
				redirect("to itself without an end", fmt.Sprintf("http://rebound.example.org:%d/", port)),
			}},
			// Only the operator writes the file: YAML of a mebibyte may take more than what a tenant writes.
			{name: "files that are hard to read", refused: true, most: 64 << 20, attempts: policyFiles()},
		},
		after: c.untouched,
		other: func(ctx context.Context) error {
			seen := send(ctx, c.client(nil, policy, podNetwork), egress.Route{Namespace: bystander}, "http://"+models+"/")
			if seen != "fine" {
				return errors.New(seen)
			}
			return nil
		},
	}
}

// policyFiles are contents of the file of the operator.
func policyFiles() []attempt {
	const head = "apiVersion: manager.capstan.dev/v1alpha1\nkind: EgressPolicy\n"
	laughs := head + "a0: &a0 [lol]\n"
	for i := range 10 {
		aliases := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ",")
		laughs += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, aliases)
	}
	rule := "- {namespaces: [a], cidrs: [{cidr: 10.0.0.0/8, ports: [443]}]}\n"
	var all []attempt
	for _, f := range []struct{ name, text string }{
		{"a billion laughs", laughs},
		{"brackets", head + "rules: " + strings.Repeat("[", 9000)},
		{"an anchor in itself", head + "rules: &r [*r]"},
		{"too many rules", head + "rules:\n" + strings.Repeat(rule, 9000)},
		{"every address in two halves", head + "rules: [{namespaces: ['*'], cidrs: [{cidr: 127.0.0.0/9, ports: [443]}]}]"},
	} {
		all = append(all, attempt{name: f.name, run: func(context.Context) string {
			policy, err := policyfile.Parse([]byte(f.text))
			return shown(fmt.Sprintf("%v", policy), err)
		}})
	}
	return all
}
