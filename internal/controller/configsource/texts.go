package configsource

import (
	"context"
	"fmt"
	"hash/fnv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/mcp/discovery"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Texts reads the long texts of configuration that the manager's cache leaves out. It keeps those that were used last,
// so that a Turn of a busy agent costs no read.
type Texts struct {
	live    client.Reader
	records record.Store
	cache   *textCache
}

// NewTexts returns a reader of texts that keeps about as many bytes of them as given. live reads past the cache, and
// records has the definitions of the tools of MCPServers.
func NewTexts(live client.Reader, records record.Store, bytes int64) *Texts {
	return &Texts{live: live, records: records, cache: newTextCache(bytes)}
}

// Of returns a reader for the resolved configuration of a Session.
func (t *Texts) Of(resolved *config.Resolved, session *v1alpha1.Session) turnstate.Texts {
	return &sessionTexts{
		Texts: t, chain: resolved.Chain, agent: resolved.Agent, session: session, capabilities: resolved.Bundles(),
	}
}

type sessionTexts struct {
	*Texts
	chain   []*v1alpha1.Harness
	agent   *v1alpha1.Agent
	session *v1alpha1.Session
	// capabilities are the Capabilities of the Session, in their order.
	capabilities []*v1alpha1.Capability
}

// Prompt implements turnstate.Texts.
func (t *sessionTexts) Prompt(ctx context.Context) (string, error) {
	if t.session.Spec.Blueprint != nil {
		return t.blueprintPrompt(ctx, t.session.Spec.Blueprint)
	}
	layers := make([]v1alpha1.ConfigLayer, 0, len(t.chain)+2)
	for _, harness := range t.chain {
		prompt, err := promptOf(ctx, t.Texts, harness, harness.Spec.ConfigLayer, &v1alpha1.Harness{},
			func(h *v1alpha1.Harness) v1alpha1.ConfigLayer { return h.Spec.ConfigLayer })
		if err != nil {
			return "", err
		}
		layers = append(layers, prompt)
	}
	if agent := t.agent; agent != nil {
		prompt, err := promptOf(ctx, t.Texts, agent, agent.Spec.ConfigLayer, &v1alpha1.Agent{},
			func(a *v1alpha1.Agent) v1alpha1.ConfigLayer { return a.Spec.ConfigLayer })
		if err != nil {
			return "", err
		}
		layers = append(layers, prompt)
	}
	prompt, err := promptOf(ctx, t.Texts, t.session, t.session.Spec.ConfigLayer, &v1alpha1.Session{},
		func(s *v1alpha1.Session) v1alpha1.ConfigLayer { return s.Spec.ConfigLayer })
	if err != nil {
		return "", err
	}
	return config.Fold(append(layers, prompt)...).SystemPrompt, nil
}

// blueprintPrompt returns the system prompt of a Session that is a blueprint.
func (t *sessionTexts) blueprintPrompt(ctx context.Context, ref *v1alpha1.BlueprintReference) (string, error) {
	for _, o := range t.capabilities {
		if o.Name != ref.Capability {
			continue
		}
		whole := &v1alpha1.Capability{}
		if err := readLive(ctx, t.live, o, whole); err != nil {
			return "", err
		}
		for i := range whole.Spec.Blueprints {
			if b := &whole.Spec.Blueprints[i]; b.Name == ref.Name {
				return config.BlueprintPrompt(b.SystemPrompt, ref.Config), nil
			}
		}
	}
	return "", fmt.Errorf("the Session has no blueprint %s of a Capability %s", ref.Name, ref.Capability)
}

// promptOf returns a layer with nothing but the prompt of an object.
func promptOf[T client.Object](
	ctx context.Context, t *Texts, object T, cached v1alpha1.ConfigLayer, into T, layer func(T) v1alpha1.ConfigLayer,
) (v1alpha1.ConfigLayer, error) {
	if !leftout.Is(cached.SystemPrompt) {
		return v1alpha1.ConfigLayer{SystemPrompt: cached.SystemPrompt}, nil
	}
	return read(ctx, t, object, into, func(o T) v1alpha1.ConfigLayer {
		return v1alpha1.ConfigLayer{SystemPrompt: layer(o).SystemPrompt}
	})
}

// CapabilityPrompt implements turnstate.Texts.
func (t *sessionTexts) CapabilityPrompt(ctx context.Context, name string) (string, error) {
	for _, o := range t.capabilities {
		if o.Name == name {
			layer, err := promptOf(ctx, t.Texts, o, v1alpha1.ConfigLayer{SystemPrompt: o.Spec.SystemPrompt},
				&v1alpha1.Capability{}, func(o *v1alpha1.Capability) v1alpha1.ConfigLayer {
					return v1alpha1.ConfigLayer{SystemPrompt: o.Spec.SystemPrompt}
				})
			return layer.SystemPrompt, err
		}
	}
	return "", fmt.Errorf("the Session has no Capability %s", name)
}

// InitialFiles implements turnstate.Texts. They are needed once in the life of a Session, and are not kept.
func (t *sessionTexts) InitialFiles(ctx context.Context) ([]v1alpha1.InitialFile, error) {
	var layers []v1alpha1.ConfigLayer
	add := func(layer v1alpha1.ConfigLayer, err error) error {
		layers = append(layers, v1alpha1.ConfigLayer{InitialFiles: layer.InitialFiles})
		return err
	}
	for _, o := range t.capabilities {
		known, whole := o.Spec.InitialFiles, &v1alpha1.Capability{}
		if config.FilesLeftOut(known) {
			if err := readLive(ctx, t.live, o, whole); err != nil {
				return nil, err
			}
			known = whole.Spec.InitialFiles
		}
		layers = append(layers, v1alpha1.ConfigLayer{InitialFiles: known})
	}
	for _, harness := range t.chain {
		whole := &v1alpha1.Harness{}
		if err := add(filesOf(ctx, t.live, harness, harness.Spec.ConfigLayer, whole, &whole.Spec.ConfigLayer)); err != nil {
			return nil, err
		}
	}
	if agent := t.agent; agent != nil {
		whole := &v1alpha1.Agent{}
		if err := add(filesOf(ctx, t.live, agent, agent.Spec.ConfigLayer, whole, &whole.Spec.ConfigLayer)); err != nil {
			return nil, err
		}
	}
	whole := &v1alpha1.Session{}
	err := add(filesOf(ctx, t.live, t.session, t.session.Spec.ConfigLayer, whole, &whole.Spec.ConfigLayer))
	return config.Fold(layers...).InitialFiles, err
}

// filesOf returns the layer of an object with the contents of its initial files. whole receives the object, of which
// layer is a part.
func filesOf(
	ctx context.Context, live client.Reader, cached client.Object, known v1alpha1.ConfigLayer, whole client.Object,
	layer *v1alpha1.ConfigLayer,
) (v1alpha1.ConfigLayer, error) {
	if !config.FilesLeftOut(known.InitialFiles) {
		return known, nil
	}
	err := readLive(ctx, live, cached, whole)
	return *layer, err
}

// Tool implements turnstate.Texts. It returns the Tool itself if nothing of it was left out.
func (t *Texts) Tool(ctx context.Context, cached *v1alpha1.Tool) (*v1alpha1.Tool, error) {
	if !definition.LeftOut(&cached.Spec) {
		return cached, nil
	}
	whole, err := read(ctx, t, cached, &v1alpha1.Tool{}, func(o *v1alpha1.Tool) *v1alpha1.Tool {
		return &v1alpha1.Tool{ObjectMeta: identity(o), Spec: o.Spec}
	})
	return whole.DeepCopy(), err
}

// MCPServer implements turnstate.Texts. It returns the MCPServer itself if nothing of it was left out.
func (t *Texts) MCPServer(ctx context.Context, cached *v1alpha1.MCPServer) (*v1alpha1.MCPServer, error) {
	if !definition.ConnectionLeftOut(cached) {
		return cached, nil
	}
	whole, err := read(ctx, t, cached, &v1alpha1.MCPServer{}, func(o *v1alpha1.MCPServer) *v1alpha1.MCPServer {
		return &v1alpha1.MCPServer{ObjectMeta: identity(o), Spec: o.Spec}
	})
	return whole.DeepCopy(), err
}

// Remote implements turnstate.Texts.
func (t *Texts) Remote(
	ctx context.Context, server *v1alpha1.MCPServer,
) (map[string]definition.RemoteTexts, error) {
	uid, version := server.UID+"/tools", versionOf(server.Status.DiscoveredTools)
	if kept, ok := t.cache.get(uid, version); ok {
		if texts, ok := kept.(map[string]definition.RemoteTexts); ok {
			return texts, nil
		}
	}
	texts, err := discovery.Load(ctx, t.records, server)
	if err != nil {
		return nil, err
	}
	for _, tool := range server.Status.DiscoveredTools {
		if texts[tool.Name].Digest != tool.Digest {
			return nil, fmt.Errorf("the definition of its tool %q is not the one in its status", tool.Name)
		}
	}
	t.cache.add(server.Namespace, uid, version, texts, leftout.Size(texts))
	return texts, nil
}

// versionOf is a number that differs for other tools.
func versionOf(tools []v1alpha1.MCPServerTool) int64 {
	hash := fnv.New64a()
	for _, tool := range tools {
		fmt.Fprintf(hash, "%q%s", tool.Name, tool.Digest)
	}
	return int64(hash.Sum64())
}

// Model implements turnstate.Texts. It returns the Model itself if nothing of it was left out.
func (t *Texts) Model(ctx context.Context, cached *v1alpha1.Model) (*v1alpha1.Model, error) {
	if !model.LeftOut(cached) {
		return cached, nil
	}
	whole, err := read(ctx, t, cached, &v1alpha1.Model{}, func(o *v1alpha1.Model) *v1alpha1.Model {
		return &v1alpha1.Model{ObjectMeta: identity(o), Spec: o.Spec}
	})
	return whole.DeepCopy(), err
}

// identity is the metadata that an object is known by.
func identity(o client.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), Generation: o.GetGeneration(),
		ResourceVersion: o.GetResourceVersion(),
	}
}

// read returns the texts of an object as they are now: those kept for this generation of the object, or those that the
// API server has. It fails if the object is gone or was replaced, which the cache will show. into receives the object.
func read[T client.Object, V any](ctx context.Context, t *Texts, cached, into T, texts func(T) V) (V, error) {
	if value, ok := t.cache.get(cached.GetUID(), cached.GetGeneration()); ok {
		if v, ok := value.(V); ok {
			return v, nil
		}
	}
	if err := readLive(ctx, t.live, cached, into); err != nil {
		var none V
		return none, err
	}
	value := texts(into)
	t.cache.add(cached.GetNamespace(), into.GetUID(), into.GetGeneration(), value, leftout.Size(value))
	return value, nil
}

// readLive reads an object past the cache.
func readLive(ctx context.Context, live client.Reader, cached, into client.Object) error {
	key := client.ObjectKeyFromObject(cached)
	if err := live.Get(ctx, key, into); err != nil {
		return fmt.Errorf("reading %T %s past the cache: %w", into, key.Name, err)
	}
	if into.GetUID() != cached.GetUID() {
		return fmt.Errorf("%T %s was replaced by another one with the same name", into, key.Name)
	}
	return nil
}
