package turn

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// leavesOutConfig makes the manager read through a cache that has no long texts of configuration, keeps bytes of them,
// and counts what it reads live. edit may change what the cache has.
func (m *manager) leavesOutConfig(bytes int64, edit func(client.Object)) map[string]int {
	live := map[string]int{}
	stored := m.w.client.(client.WithWatch)
	m.Client = interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			err := c.Get(ctx, key, o, options...)
			if edit != nil && err == nil {
				edit(o)
			}
			switch o := o.(type) {
			case *v1alpha1.Harness:
				config.LeaveOutPrompt(&o.Spec.ConfigLayer)
			case *v1alpha1.Session:
				config.LeaveOutPrompt(&o.Spec.ConfigLayer)
			case *v1alpha1.Tool:
				definition.LeaveOut(o)
			}
			return err
		},
	})
	m.Texts = configsource.NewTexts(interceptor.NewClient(stored, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			live[reflect.TypeOf(o).Elem().Name()+" "+key.Name]++
			return c.Get(ctx, key, o, options...)
		},
	}), nil, bytes)
	return live
}

// enlarge gives a Tool a long schema and long arguments or headers.
func enlarge(definition *v1alpha1.Tool) *v1alpha1.Tool {
	long := strings.Repeat("x", 4<<10)
	definition.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"description":"` + long + long + `","type":"object"}`)}
	if definition.Spec.Job != nil {
		definition.Spec.Job.Args = []string{long, long}
	}
	if definition.Spec.HTTP != nil {
		definition.Spec.HTTP.Headers = []v1alpha1.HTTPHeader{{Name: "X-Long", Value: &long}}
	}
	return definition
}

func TestLargeConfigurationIsReadOnceWhenItIsNeeded(t *testing.T) {
	w := newWorld(t)
	w.begin(
		enlarge(builder.JobTool("job", v1alpha1.SideEffectAtMostOnce).Obj()),
		enlarge(w.site("ask", v1alpha1.SideEffectAtMostOnce)),
		enlarge(builder.ClientTool("client").Obj()),
	)
	prompt := strings.Repeat("Be kind. ", 4<<10)
	session := w.session()
	w.change(session, func() { session.Spec.SystemPrompt = prompt })
	m := w.manager(0)
	live := m.leavesOutConfig(1<<20, nil)
	m.until("the client is waited for", func() bool {
		return w.call("job").State == v1alpha1.ToolCallStateSucceeded &&
			w.call("ask").State == v1alpha1.ToolCallStateSucceeded
	})
	w.answer("client", "result")
	m.until("the end of the Turn", w.finished)

	for i, asked := range w.asked {
		if !strings.Contains(asked.SystemPrompt, strings.TrimSpace(prompt)) {
			t.Errorf("call %d of the model reads %d bytes of the prompt, want %d", i, len(asked.SystemPrompt), len(prompt))
		}
		for _, definition := range asked.Tools {
			if len(definition.InputSchema) < 8<<10 || definition.Description != "A tool of the tests." {
				t.Errorf(
					"the model reads of Tool %s: %q and %d bytes",
					definition.Name,
					definition.Description,
					len(definition.InputSchema),
				)
			}
		}
	}
	if w.sent["ask"] != 1 {
		t.Errorf("%d requests were sent, want 1", w.sent["ask"])
	}
	jobs := w.jobs()
	if len(jobs) != 1 || !strings.Contains(strings.Join(jobs[0].Spec.Template.Spec.Containers[0].Args, " ")+
		strings.Join(jobs[0].Spec.Template.Spec.Containers[0].Command, " "), strings.Repeat("x", 4<<10)) {
		t.Errorf("the Jobs are %d, without the arguments of the Tool", len(jobs))
	}
	if want := map[string]int{"Session demo": 1, "Tool job": 1, "Tool ask": 1, "Tool client": 1}; !maps.Equal(live, want) {
		t.Errorf("read live: %v, want %v", live, want)
	}
}

// The cache shows a Tool as it was planned, and the API server has another definition by now.
func TestALargeToolThatHasChangedIsNotRun(t *testing.T) {
	for name, build := range map[string]func(*world) *v1alpha1.Tool{
		"Job":  func(*world) *v1alpha1.Tool { return builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj() },
		"HTTP": func(w *world) *v1alpha1.Tool { return w.site("work", v1alpha1.SideEffectAtMostOnce) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.begin(enlarge(build(w)))
			m := w.manager(0)
			var before *v1alpha1.Tool
			m.leavesOutConfig(0, func(o client.Object) {
				if definition, ok := o.(*v1alpha1.Tool); ok && before != nil {
					before.DeepCopyInto(definition)
				}
			})
			w.during = func() {
				if before != nil {
					return
				}
				definition := &v1alpha1.Tool{}
				definition.Name, definition.Namespace = "work", testNamespace
				w.change(definition, func() {
					before = definition.DeepCopy()
					if definition.Spec.Job != nil {
						definition.Spec.Job.Args[0] = "another argument"
					} else {
						other := "another value"
						definition.Spec.HTTP.Headers[0].Value = &other
					}
				})
			}
			m.until("the end of the Turn", w.finished)
			if text := w.resultText("work"); !strings.Contains(text, "changed") || w.sent["work"] != 0 || len(w.jobs()) != 0 {
				t.Errorf("%d requests and %d Jobs; the model received: %s", w.sent["work"], len(w.jobs()), text)
			}
		})
	}
}
