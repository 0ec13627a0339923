package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/readiness"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// shelf has the configuration that was left out.
type shelf struct {
	prompt string
	files  []v1alpha1.InitialFile
	tools  map[string]*v1alpha1.Tool
	model  *v1alpha1.Model
	remote map[string]definition.RemoteTexts
	reads  int
	err    error
}

func (s *shelf) Prompt(context.Context) (string, error) {
	s.reads++
	return s.prompt, s.err
}

func (s *shelf) CapabilityPrompt(_ context.Context, name string) (string, error) {
	s.reads++
	return "Prompt of " + name + ". ", s.err
}

func (s *shelf) InitialFiles(context.Context) ([]v1alpha1.InitialFile, error) {
	s.reads++
	return s.files, s.err
}

func (s *shelf) Tool(_ context.Context, cached *v1alpha1.Tool) (*v1alpha1.Tool, error) {
	s.reads++
	return s.tools[cached.Name].DeepCopy(), s.err
}

func (s *shelf) MCPServer(_ context.Context, cached *v1alpha1.MCPServer) (*v1alpha1.MCPServer, error) {
	s.reads++
	return cached, s.err
}

func (s *shelf) Remote(context.Context, *v1alpha1.MCPServer) (map[string]definition.RemoteTexts, error) {
	s.reads++
	return s.remote, s.err
}

func (s *shelf) Model(context.Context, *v1alpha1.Model) (*v1alpha1.Model, error) {
	s.reads++
	return s.model.DeepCopy(), s.err
}

// largeConfig is a configuration with a long prompt, a large Tool and a Model with a long script, as a cache keeps it.
func largeConfig(t *testing.T) (turnstate.Config, *shelf) {
	t.Helper()
	work := jobTool("work")
	work.Spec.Description = strings.Repeat("d", 16<<10)
	c := with(work)
	c.Model = c.Model.DeepCopy()
	c.Model.Spec.Simulation = &v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: strings.Repeat("x", 64<<10)},
	}
	s := &shelf{
		prompt: strings.Repeat("p", 64<<10), model: c.Model.DeepCopy(),
		tools: map[string]*v1alpha1.Tool{"work": work.DeepCopy()},
	}
	layer := v1alpha1.ConfigLayer{SystemPrompt: s.prompt}
	config.LeaveOutPrompt(&layer)
	c.Prompts = []capability.Prompt{{ID: "object/notes", Text: leftout.Mark(3<<10, ""), Config: "{}"}}
	c.Effective.SystemPrompt = config.Fold(layer).SystemPrompt
	cached := work.DeepCopy()
	definition.LeaveOut(cached)
	c.Tools = definition.Set{definition.Of(cached)}
	model.LeaveOut(c.Model)
	if !c.Tools.Find("work").LeftOut() || !model.LeftOut(c.Model) {
		t.Fatal("the configuration is kept whole")
	}
	c.Texts = s
	return c, s
}

func TestAModelIsCalledWithTheTextsThatWereLeftOut(t *testing.T) {
	b := newBench(t)
	c, s := largeConfig(t)
	var script string
	b.Models = model.Registry{c.Model.Spec.Provider: func(m *v1alpha1.Model, _ model.Access) (model.Driver, error) {
		script = m.Spec.Simulation.Response.Text
		return b, nil
	}}
	b.responds("", calls(1, "work")...)
	turn, closed := b.reason(newTurn("demo-1"), c)
	asked := b.asked[0]
	description := asked.Tools[0].Description
	if !strings.Contains(asked.SystemPrompt, s.prompt) || description != s.tools["work"].Spec.Description ||
		len(script) != 64<<10 {
		t.Errorf("the model reads %d bytes of the prompt, and %d of the Tool; its script has %d",
			len(asked.SystemPrompt), len(description), len(script))
	}
	if !strings.HasPrefix(asked.SystemPrompt, "<capability id=\"object/notes\">\nPrompt of notes.\n\n<config>") {
		t.Errorf("the prompt begins with %.80q", asked.SystemPrompt)
	}
	if s.reads != 4 {
		t.Errorf("%d reads, want 4", s.reads)
	}
	var pinned v1alpha1.ToolCall
	definition.Of(s.tools["work"]).Pin(&pinned)
	if call := turn.Progress.ToolCalls[0]; call.ToolDigest != pinned.ToolDigest ||
		call.State != v1alpha1.ToolCallStatePending ||
		len(closed.Calls) != 1 {
		t.Errorf("the call is planned as %+v, want the digest %s of the whole Tool", call, pinned.ToolDigest)
	}
}

func TestAModelIsNotCalledWithoutItsTexts(t *testing.T) {
	b := newBench(t)
	c, s := largeConfig(t)
	s.err = errors.New("not now")
	if closed, err := b.Reason(
		t.Context(),
		newTurn("demo-1"),
		c,
	); !errors.Is(err, s.err) || closed != nil ||
		len(b.asked) != 0 {
		t.Errorf("closed %v, %v, after %d calls", closed, err, len(b.asked))
	}
}

func TestTheTextsThatWereLeftOutCountAsMemoryOfTheCall(t *testing.T) {
	c, s := largeConfig(t)
	turn := newTurn("demo-1")
	before := CallBytes(turn, 0)
	turn.ConfigBytes = c.LeftOutBytes()
	want := int64(3<<10 + len(s.prompt) + len(s.tools["work"].Spec.Description))
	if got := CallBytes(turn, 0) - before; got < 8*want || got > 9*want {
		t.Errorf("the call needs %d bytes more for texts of %d", got, want)
	}
	if whole := with(jobTool("work")).LeftOutBytes(); whole != 0 {
		t.Errorf("of a whole configuration %d bytes are left out", whole)
	}
}

// A text that was not read must never reach a model, a Job, a request or a digest.
func TestTextsThatWereLeftOutCannotBeUsed(t *testing.T) {
	b := newBench(t)
	c, s := largeConfig(t)
	job := c.Tools.Find("work").Spec()
	http := &v1alpha1.ToolSpec{
		Description: strings.Repeat("d", 16<<10),
		HTTP:        &v1alpha1.HTTPTool{URL: "https://example.org"},
	}
	httpTool := &v1alpha1.Tool{Spec: *http}
	definition.LeaveOut(httpTool)
	offered := s.tools["work"].DeepCopy()
	definition.LeaveOutExecution(&offered.Spec)
	for name, use := range map[string]func(){
		"the prompt":                 func() { prompt.Render(prompt.Prompts{Layers: c.Effective.SystemPrompt}, nil, nil) },
		"the definitions":            func() { prompt.Render(prompt.Prompts{}, c.Tools, nil) },
		"the schema":                 func() { b.pin(newTurn("demo-1"), c, calls(1, "work")) },
		"a Job":                      func() { jobspec.Build(jobspec.Params{Tool: job}) },
		"a Job of the offered tool":  func() { jobspec.Build(jobspec.Params{Tool: &offered.Spec}) },
		"a request":                  func() { httpcall.Build(httpcall.Params{Tool: &httpTool.Spec}) },
		"the readiness of a Tool":    func() { readiness.Of(job, inputschema.NewValidator()) },
		"the arguments in the query": func() { httpcall.Check(&httpTool.Spec) },
		"a script":                   func() { _ = b.Models.Check(c.Model) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if failure := recover(); failure == nil || !strings.Contains(failure.(string), "before") {
					t.Errorf("used, with the panic %v", failure)
				}
			}()
			use()
		})
	}
	if got, want := definition.Digest(&offered.Spec), definition.Digest(&s.tools["work"].Spec); got != want {
		t.Errorf("the digest of the offered tool is %s, want %s", got, want)
	}
}

// Rules: FS-03.
func TestInitialFilesAreReadWhenTheyAreWritten(t *testing.T) {
	whole := []v1alpha1.InitialFile{{Path: "/a", Content: "kept"}}
	layer := v1alpha1.ConfigLayer{InitialFiles: slices.Clone(whole)}
	if InitialFiles(turnstate.Config{}) != nil {
		t.Error("a Session without initial files asks for some")
	}
	s := &shelf{files: whole}
	for reads, name := range []string{"whole", "left out"} {
		c := turnstate.Config{Effective: config.Fold(layer), Texts: s}
		seed, err := InitialFiles(c)(t.Context())
		if err != nil || len(seed) != 1 || seed[0].Content != "kept" || s.reads != reads {
			t.Errorf("%s: %+v, %v with %d reads", name, seed, err, s.reads)
		}
		config.LeaveOutFiles(&layer)
	}
	s.err = errors.New("not now")
	c := turnstate.Config{Effective: config.Fold(layer), Texts: s}
	if _, err := InitialFiles(c)(t.Context()); !errors.Is(err, s.err) {
		t.Errorf("the error is %v", err)
	}
}
