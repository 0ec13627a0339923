package turns_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// publishedKey returns the public key of an id from the key set of the installation.
func publishedKey(ctx context.Context, namespace, id string) *ecdsa.PublicKey {
	GinkgoHelper()
	published := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: namespace, Name: "capstan-identity-keys"}
	Expect(kit.Client.Get(ctx, key, published)).To(Succeed())
	var set struct{ Keys []map[string]string }
	Expect(json.Unmarshal([]byte(published.Data["jwks.json"]), &set)).To(Succeed())
	Expect(set.Keys).To(ConsistOf(HaveKeyWithValue("kid", id)))
	point := []byte{4}
	for _, name := range []string{"x", "y"} {
		raw, err := base64.RawURLEncoding.DecodeString(set.Keys[0][name])
		Expect(err).NotTo(HaveOccurred())
		point = append(point, raw...)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	Expect(err).NotTo(HaveOccurred())
	return public
}

var _ = Describe("An MCPServer that demands identity tokens", Serial, Ordered, func() {
	const namespaceOfKeys = "default"
	clock := capstantest.NewClock(time.Now())
	another := onOwnServer(capstantest.Options{
		Clock: clock, EgressAllow: loopback, EgressRoots: testRoots(), IdentityNamespace: namespaceOfKeys,
	})

	// Rules: MCP-04.
	It("gets one that names the agent, and no other place has it", func(ctx context.Context) {
		kit = another()
		find := sites.Echo("find")
		var s *site
		find.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
			said := mcpCalls(s)[0].Header.Get("Authorization")
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "You said " + said + "."}}}
		}
		s = newSite(sites.MCPHandler(sites.Stateful, find).ServeHTTP)
		server := serverAt(s)
		server.Spec.Identity = v1alpha1.MCPIdentityAgentToken
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:mcp_search__find}}", builder.Calls("mcp_search__find")))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		session.Spec.AgentRef = &v1alpha1.LocalReference{Name: "triage"}
		server.Namespace = namespace
		agent := &v1alpha1.Agent{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "triage"}}
		create(ctx, agent, server, session, builder.Turn("demo-1").In(namespace).Input("Find").Obj())
		known := &v1alpha1.MCPServer{}
		conditions := func() []metav1.Condition { return known.Status.Conditions }
		Eventually(readyOf(ctx, namespace, "search", known, conditions)).Should(And(
			HavePrefix(v1alpha1.ReasonIdentityUnavailable), ContainSubstring("capstan-identity-keys")))
		Expect(s.requests()).To(BeEmpty(), "the server was called without a token")

		meta := metav1.ObjectMeta{Namespace: namespaceOfKeys, Name: "capstan-identity-keys"}
		create(ctx, &corev1.Secret{ObjectMeta: meta}, &corev1.ConfigMap{ObjectMeta: meta})
		clock.Advance(10 * time.Minute)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Told: You said Bearer [redacted]."))

		token := strings.TrimPrefix(mcpCalls(s)[0].Header.Get("Authorization"), "Bearer ")
		claims := jwt.RegisteredClaims{}
		_, err = jwt.ParseWithClaims(token, &claims, func(token *jwt.Token) (any, error) {
			id, _ := token.Header["kid"].(string)
			return publishedKey(ctx, namespaceOfKeys, id), nil
		}, jwt.WithValidMethods([]string{"ES256"}), jwt.WithIssuer("capstan"), jwt.WithAudience(s.URL+"/mcp"),
			jwt.WithTimeFunc(clock.Now))
		Expect(err).NotTo(HaveOccurred())
		Expect(claims.Subject).To(Equal("capstan:agent:" + namespace + ":triage"))
		tokens := map[string]bool{}
		for _, r := range s.requests() {
			Expect(r.Header.Get("Authorization")).To(HavePrefix("Bearer eyJ"), r.Method)
			tokens[r.Header.Get("Authorization")] = true
		}
		Expect(tokens).To(HaveLen(len(s.requests())), "a token was used twice")

		signature := token[strings.LastIndex(token, ".")+1:]
		Expect(kit.Client.Get(ctx, client.ObjectKeyFromObject(server), known)).To(Succeed())
		for what, object := range map[string]any{"the Turn": turn, "the journal": journalOf(ctx, namespace), "it": known} {
			raw, err := json.Marshal(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(string(raw)).NotTo(Or(ContainSubstring(signature), ContainSubstring("eyJ")), what)
		}
		Expect(managerLog.contains(signature)).To(BeFalse(), "the manager has logged it")
	})
})
