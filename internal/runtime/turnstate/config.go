package turnstate

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/compaction"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/title"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// Config is the configuration of a Turn at one point in time.
type Config struct {
	// Blocker stops the Turn; nil for none.
	Blocker *config.Blocker
	// Effective is the merged configuration of the layers.
	Effective config.Effective
	// Prompts are what the capabilities add to the system prompt, in order.
	Prompts []capability.Prompt
	// Hooks are those of all layers that run, in order, each with its id.
	Hooks []hook.Spec
	// Model to call; nil for a Turn without a Model.
	Model *v1alpha1.Model
	// ModelNotFound is the name of the Model that the controls name and that does not exist; empty for none (CFG-07).
	ModelNotFound string
	// NoModel is the wait for a Model where Model is nil.
	NoModel *MissingKey
	// Fallbacks are called instead, in order, if Model cannot serve the request.
	Fallbacks []*v1alpha1.Model
	// Compaction is how long conversations are shortened; nil for not at all. Summarizer is the Model that writes
	// summaries; nil for Model.
	Compaction *compaction.Policy
	Summarizer *v1alpha1.Model
	// Title is how the Session gets its title; nil for not at all. Titler is the Model that writes it; nil for Model.
	Title  *title.Policy
	Titler *v1alpha1.Model
	// Tools are the definitions of the tools that the model may call.
	Tools definition.Set
	// Withheld has the tools whose calls in a response are refused, with the error for the model: it was shown another
	// definition.
	Withheld map[string]string
	// Texts reads the texts that are left out of the system prompt, the initial files, the Tools and the Models. Not
	// needed if all are whole.
	Texts Texts
}

// Texts reads the configuration that a cache has left out. It returns whole objects, which the caller may change.
type Texts interface {
	// Prompt returns the system prompt of all layers.
	Prompt(ctx context.Context) (string, error)
	// CapabilityPrompt returns the system prompt of a Capability.
	CapabilityPrompt(ctx context.Context, name string) (string, error)
	// InitialFiles returns the initial files of all layers, with their contents.
	InitialFiles(ctx context.Context) ([]v1alpha1.InitialFile, error)
	// Tool returns a Tool as it is now.
	Tool(ctx context.Context, cached *v1alpha1.Tool) (*v1alpha1.Tool, error)
	// Remote returns the texts of the tools of an MCPServer, by the names of the tools at the server. They are those of
	// the digests in its status.
	Remote(ctx context.Context, server *v1alpha1.MCPServer) (map[string]definition.RemoteTexts, error)
	// MCPServer returns an MCPServer as it is now.
	MCPServer(ctx context.Context, cached *v1alpha1.MCPServer) (*v1alpha1.MCPServer, error)
	// Model returns a Model as it is now.
	Model(ctx context.Context, cached *v1alpha1.Model) (*v1alpha1.Model, error)
}

// ConfigOf returns the configuration of a Turn with the given controls, from the current layers of its Session.
func ConfigOf(resolved *config.Resolved, controls *v1alpha1.TurnControls) Config {
	c := Config{
		Blocker: resolved.Blocker(), Effective: resolved.Effective, Tools: resolved.Definitions(),
		Prompts:       resolved.Prompts(),
		Hooks:         resolved.Hooks,
		ModelNotFound: resolved.ModelNotFound(controls),
	}
	var summarizer *v1alpha1.Model
	if c.Compaction, summarizer = resolved.Compaction(); summarizer != nil {
		c.Summarizer = summarizer.DeepCopy()
	}
	var titler *v1alpha1.Model
	if c.Title, titler = resolved.Title(); titler != nil {
		c.Titler = titler.DeepCopy()
	}
	if model, ok := resolved.Model(controls); ok {
		// Copies, so that a model call does not keep the other Models of the namespace in memory.
		c.Model = config.Tuned(model, controls)
		for _, fallback := range resolved.Fallbacks(model) {
			c.Fallbacks = append(c.Fallbacks, config.Tuned(fallback, controls))
		}
	} else {
		reason, problem := resolved.NoModel()
		c.NoModel = &MissingKey{Reason: reason, Problem: problem}
	}
	return c
}

// Models are the Models that may be called, in order.
func (c Config) Models() []*v1alpha1.Model {
	if c.Model == nil {
		return nil
	}
	return append([]*v1alpha1.Model{c.Model}, c.Fallbacks...)
}

// LeftOutBytes is the size of the texts that a model call has yet to read of the configuration.
func (c Config) LeftOutBytes() int64 {
	n := leftout.Bytes(c.Effective.SystemPrompt)
	for _, p := range c.Prompts {
		n += leftout.Bytes(p.Text)
	}
	for _, d := range c.Tools {
		n += d.LeftOutBytes()
	}
	return n
}

// ReadySince returns, by name of each Model of the configuration that is Ready, since when it has been.
func ReadySince(c Config) map[string]metav1.Time {
	since := map[string]metav1.Time{}
	for _, m := range c.Models() {
		ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
		if ready != nil && ready.Status == metav1.ConditionTrue {
			since[m.Name] = ready.LastTransitionTime
		}
	}
	return since
}
