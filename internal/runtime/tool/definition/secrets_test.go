package definition

import (
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// An approval is about where a secret may go.
//
// Rules: KV-02.
func TestTheArgumentsThatMayBeSecretAreAPartOfTheDigest(t *testing.T) {
	ofServer := func(secret ...v1alpha1.SecretArgument) *Definition {
		server := &v1alpha1.MCPServer{}
		server.Name, server.Spec.URL = "search", "https://example.org"
		server.Spec.Tools = []v1alpha1.MCPToolRule{{Name: "find", SecretArguments: secret}}
		server.Status.DiscoveredTools = []v1alpha1.MCPServerTool{{Name: "find", Digest: "d"}}
		return OfServer(server)[0]
	}
	ofTool := func(secret ...v1alpha1.SecretArgument) *Definition {
		tool := &v1alpha1.Tool{}
		tool.Spec.HTTP = &v1alpha1.HTTPTool{URL: "https://example.org", SecretArguments: secret}
		return Of(tool)
	}
	for name, of := range map[string]func(...v1alpha1.SecretArgument) *Definition{
		"MCPServer": ofServer, "Tool": ofTool,
	} {
		if got := of("/a", "/b").SecretArguments(); !slices.Equal(got, []string{"/a", "/b"}) {
			t.Errorf("%s: %q", name, got)
		}
		digests := map[string]bool{of().Digest(): true, of("/a").Digest(): true, of("/b").Digest(): true}
		if again := of("/a").Digest(); len(digests) != 3 || !digests[again] {
			t.Errorf("%s: the digests are %v", name, digests)
		}
	}
	job := &v1alpha1.Tool{}
	job.Spec.Job = &v1alpha1.JobTool{}
	if got := Of(job).SecretArguments(); len(got) > 0 {
		t.Errorf("a Job may have secrets in %q", got)
	}
	for want, set := range map[bool]Set{
		false: {ofTool(), Of(job), ofServer()}, true: {ofTool(), ofServer("/a")},
	} {
		if set.PermitSecrets() != want {
			t.Errorf("of %d tools, one permits secrets: %t", len(set), !want)
		}
	}
	var none *Definition
	if got := none.SecretArguments(); len(got) > 0 {
		t.Errorf("no definition has %q", got)
	}
}
