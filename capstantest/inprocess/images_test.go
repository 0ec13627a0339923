package inprocess_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
)

const (
	// plot begins as a PNG does. plotted is a result with it, in the form of a content list.
	plot    = "\x89PNG\r\n\x1a\n"
	plotted = `[{"type": "text", "text": "The plot."}, {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}]`
)

func init() {
	builtin.Register(builtin.Capability{Name: "test_plot", Tools: []builtin.Tool{{
		Name: "draw_plot", Description: "Draws.",
		Run: func(context.Context, builtin.Call) (any, error) {
			return []content.Block{content.Text("The plot."), content.Image("image/png", []byte(plot))}, nil
		},
	}}})
}

// TestResultsWithImages returns an image from a tool of each executor. The model has it, and the events have the id
// that the Session has stored it under; the status of the call has its words (TOOL-05, TOOL-15, IMG-03).
func TestResultsWithImages(t *testing.T) {
	url, _, options := guardedSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/png" {
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte(plot))
			return
		}
		_, _ = w.Write([]byte(plotted))
	})
	objects := `
{apiVersion: capstan.dev/v1alpha1, kind: Tool, metadata: {name: lists}, spec: {
  description: Lists., http: {url: "` + url + `/list"}}}
---
{apiVersion: capstan.dev/v1alpha1, kind: Tool, metadata: {name: paints}, spec: {
  description: Paints., http: {url: "` + url + `/png", method: GET}}}
---
{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: demo}, spec: {
  harnessRef: {name: base}, tools: [{name: lists}, {name: paints}], capabilities: [{builtin: test_plot}]}}
`
	inline := event.Part{
		Type: event.PartImage, MediaType: "image/png", Base64: base64.StdEncoding.EncodeToString([]byte(plot)),
	}
	image := event.Part{
		Type: event.PartImage, MediaType: "image/png", ImageID: sessionimage.IDOf([]byte(plot)),
		ImageBytes: int64(len(plot)),
	}
	whole := []event.Part{event.Text("The plot."), image}
	read := []event.Part{event.Text("The plot."), inline}
	for call, test := range map[string]struct {
		want  []event.Part
		shown string
	}{
		"look":      {whole, "The plot. (image/png)"},
		"pay":       {whole, "The plot. (image/png)"},
		"ask":       {whole, "The plot. (image/png)"},
		"lists":     {whole, "The plot. (image/png)"},
		"paints":    {[]event.Part{image}, "(image/png)"},
		"draw_plot": {whole, "The plot. (image/png)"},
	} {
		t.Run(call, func(t *testing.T) {
			var mu sync.Mutex
			var prompt []event.Message
			runtime := start(t, append(options, inprocess.WithYAML(objects), inprocess.WithTools(returns(plotted)),
				inprocess.WithSimulation(calling([]string{call})), inprocess.WithPrompts(func(r inprocess.Request) {
					mu.Lock()
					defer mu.Unlock()
					prompt = r.Messages
				}))...)
			turn := run(t, runtime, message("demo-1", "Draw."))
			if call == "ask" {
				var err error
				if turn, err = runtime.Answer(t.Context(), "demo-1", "1-0", plotted); err != nil {
					t.Fatal(err)
				}
			}
			if len(turn.Status.ToolCalls) != 1 {
				t.Fatalf("the Turn is %+v", turn.Status)
			}
			if got := turn.Status.ToolCalls[0]; got.State != v1alpha1.ToolCallStateSucceeded || got.Preview != test.shown {
				t.Errorf("the call is %+v", got)
			}
			events, err := runtime.Events(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			if data := decodeOne[event.ToolCompleted](
				t,
				events,
				event.TypeToolCompleted,
			); !slices.Equal(
				data.Result,
				test.want,
			) {
				t.Errorf("tool.completed has %+v", data.Result)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := event.Unfenced(prompt[len(prompt)-1]); !slices.Equal(got.Content, read[len(read)-len(test.want):]) {
				t.Errorf("the model reads %+v", got)
			}
		})
	}
}

// TestAnImageThatDoesNotFit is cut off by the bound of results: the model reads the text before it, and a note.
func TestAnImageThatDoesNotFit(t *testing.T) {
	large := strings.Replace(plotted, "iVBORw0KGgo=", strings.Repeat("iVBORw0KGgoA", 6000), 1)
	for _, call := range []string{"look", "ask"} {
		runtime := start(t, inprocess.WithTools(returns(large)), inprocess.WithSimulation(calling([]string{call})))
		run(t, runtime, message("demo-1", "Draw."))
		if call == "ask" {
			if _, err := runtime.Answer(t.Context(), "demo-1", "1-0", large); err != nil {
				t.Fatal(err)
			}
		}
		texts := resultTexts(t, runtime)
		if len(texts) != 1 || !strings.HasPrefix(texts[0], "The plot.\n(Left out: an image at the end of a result that is "+
			"too large. A result has at most 65536 bytes") || len(texts[0]) > 400 {
			t.Errorf("from %s the model reads %.500q", call, texts)
		}
	}
}
