package policies_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// newMCPServer is an MCPServer with headers.
func newMCPServer(name string, headers ...v1alpha1.HTTPHeader) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		ObjectMeta: named(name),
		Spec:       v1alpha1.MCPServerSpec{URL: "https://mcp.example.org", Headers: headers},
	}
}

// Rules: MCP-04.
var _ = Describe("The policies for MCPServers", func() {
	notYours := func(secret string) string {
		const refusal = "you are not allowed to use Secret %q: an MCPServer that refers to it requires permission to get it."
		return fmt.Sprintf(refusal, secret)
	}

	It("let an MCPServer name a Secret that its writer may get", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("mine", "mine-2")))
		accepts(creating(ctx, user, newMCPServer("server", secretHeader("A", "mine"), secretHeader("B", "mine-2"),
			secretHeader("C", "mine"))))
		refuses(creating(ctx, user, newMCPServer("server", secretHeader("A", "theirs"))), notYours("theirs"))
		server := stored(ctx, user, newMCPServer("sent", secretHeader("A", "mine")))
		other, _ := newUser(ctx, "capstan-tools")
		refuses(
			updating(ctx, other, server, func(s *v1alpha1.MCPServer) { s.Spec.URL = "https://attacker.example" }),
			notYours("mine"),
		)
	})

	It("check each of at most eight Secrets", func(ctx context.Context) {
		names := []string{"s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7"}
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets(append(names, "s-8")...)))
		headers := make([]v1alpha1.HTTPHeader, 0, len(names))
		for i, name := range names {
			headers = append(headers, secretHeader(fmt.Sprintf("S%d", i), name))
		}
		accepts(creating(ctx, user, newMCPServer("server", headers...)))
		for i := range headers {
			theirs := slices.Clone(headers)
			theirs[i] = secretHeader(theirs[i].Name, "theirs")
			refuses(creating(ctx, user, newMCPServer("server", theirs...)), notYours("theirs"))
		}
		refuses(creating(ctx, user, newMCPServer("server", append(headers, secretHeader("S8", "s-8"))...)),
			"an MCPServer may refer to at most 8 Secrets.")
	})

	It("let a Secret that is bound to hosts be sent to these, and to no others", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-tools", newRole(ctx, gets("bound-to-mcp")))
		secret := newSecret("bound-to-mcp")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: "mcp.example.org, Other.example:8443"}
		stored(ctx, admin, secret)
		to := func(url string) *v1alpha1.MCPServer {
			server := newMCPServer("server", secretHeader("A", "bound-to-mcp"))
			server.Spec.URL = url
			return server
		}
		for _, url := range []string{
			"https://mcp.example.org/v1", "https://MCP.example.org:443", "https://other.example:8443",
		} {
			accepts(creating(ctx, user, to(url)))
		}
		for url, place := range map[string]string{
			"https://attacker.example": "attacker.example:443", "https://other.example": "other.example:443",
			"https://mcp.example.org.attacker.example/": "mcp.example.org.attacker.example:443",
		} {
			refuses(creating(ctx, user, to(url)), `Secret "bound-to-mcp" is bound to hosts by capstan.dev/allowed-hosts and `+
				"cannot be sent to "+place+".")
		}
	})

	It("let users with the role for tools write MCPServers, and others read them", func(ctx context.Context) {
		tools, _ := newUser(ctx, "capstan-tools")
		accepts(creating(ctx, tools, newMCPServer("server")))
		edit, _ := newUser(ctx, "capstan-edit")
		refuses(creating(ctx, edit, newMCPServer("server")), "cannot create resource")
	})
})
