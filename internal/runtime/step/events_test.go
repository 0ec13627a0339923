package step

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

var update = flag.Bool("update", false, "write the golden files of TestWhatEventsSay anew")

// scenario runs steps of a Turn and keeps the events that they append. Its clock stands still but for model calls,
// which take 1.5 s, so that times and durations do not depend on how often the time is read.
type scenario struct {
	*bench
	turn   turnstate.Turn
	events []event.Event
	calls  []journal.PlannedCall
}

func newScenario(t *testing.T) *scenario {
	t.Helper()
	b := newBench(t)
	b.Clock = b.time.Now
	b.Log = journal.New(memory.New(), journal.Options{Clock: b.Clock})
	b.pausing()
	s := &scenario{bench: b, turn: newTurn("demo-1")}
	s.turn.Agent = "helper"
	s.responds("Hello.")
	return s
}

// takes makes every model call take its time.
func (s *scenario) takes(answer func(model.Request) (*model.Response, error)) {
	s.answer = func(r model.Request) (*model.Response, error) {
		s.time.Pass(1500 * time.Millisecond)
		return answer(r)
	}
}

func (s *scenario) responds(text string, calls ...model.ToolCall) {
	s.takes(func(r model.Request) (*model.Response, error) {
		n := int64(len(s.asked))
		return &model.Response{
			Text:         text,
			ToolCalls:    calls,
			FinishReason: model.FinishStop,
			ResponseID:   fmt.Sprintf("response-%d", n),
			Model:        r.Model + "-2026",
			Usage:        model.Usage{InputTokens: 100 * n, OutputTokens: 7, CacheReadTokens: 40, CacheWriteTokens: 3},
		}, nil
	})
}

func (s *scenario) fails(errs ...error) {
	answers := s.answer
	s.takes(func(r model.Request) (*model.Response, error) {
		if n := len(s.asked); n <= len(errs) {
			return nil, errs[n-1]
		}
		s.time.Pass(-1500 * time.Millisecond)
		return answers(r)
	})
}

// closes records the entry that closed a step.
func (s *scenario) closes(closed *journal.Closed, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
	s.events = append(s.events, closed.Events...)
	s.turn = after(s.turn, closed)
	if len(closed.Calls) > 0 {
		s.calls = planned(closed)
	}
}

func (s *scenario) reasons(c turnstate.Config) {
	s.t.Helper()
	s.closes(s.ReasonInPlace(s.t.Context(), s.turn, c, nil))
}

// acts closes an act step whose calls are those of asksForTools.
func (s *scenario) acts() {
	s.t.Helper()
	s.closes(s.Act(s.t.Context(), s.turn, s.results().step()))
}

func (s *scenario) results() facts {
	no := tool.Outcome{
		State:      v1alpha1.ToolCallStateFailed,
		Reason:     "ExitCode",
		Error:      "exit code 3",
		Started:    true,
		StartedAt:  started.Add(2 * time.Second),
		FinishedAt: started.Add(3 * time.Second),
	}
	return facts{
		Planned: s.calls,
		Sources: map[string]types.UID{"1-2": "result-uid"},
		Outcomes: map[string]tool.Outcome{
			"1-0": succeeded("42"),
			"1-1": no,
			"1-2": clientOutcome(journal.SettledCall{ID: "1-2", Result: pointerTo("yes")}),
		},
	}
}

// asksForTools is a first model call that leads to two Jobs and a client call.
func (s *scenario) asksForTools() turnstate.Config {
	s.t.Helper()
	c := with(jobTool("work"), clientTool("ask"))
	c.Model = priced(named("big"), "USD", "2", "10")
	s.responds(
		"Let me see.",
		model.ToolCall{
			ProviderID: "p0",
			Name:       "work",
			Arguments:  `{"a":1}`,
		},
		model.ToolCall{ProviderID: "p1", Name: "work", Arguments: `{}`},
		model.ToolCall{Name: "ask", Arguments: `{"q":"why"}`},
	)
	s.reasons(c)
	return c
}

// stories are the kinds of steps there are.
var scenarios = map[string]func(s *scenario){
	"answer": func(s *scenario) { s.turn.Locale = "de"; s.reasons(with()) },
	"tools": func(s *scenario) {
		c := s.asksForTools()
		s.acts()
		s.responds("It is 42.")
		s.reasons(c)
	},
	"refusal": func(s *scenario) {
		s.takes(func(model.Request) (*model.Response, error) {
			return &model.Response{
				Text:         "I",
				FinishReason: model.FinishFiltered,
				FinishWord:   "SPII",
				Usage:        model.Usage{InputTokens: 3},
			}, nil
		})
		s.reasons(with())
	},
	"limit-of-iterations": func(s *scenario) {
		c := with(jobTool("work"))
		c.Effective.MaxIterations = 1
		s.responds("Let me see.", calls(1, "work")...)
		s.reasons(c)
	},
	"calls-that-are-refused": func(s *scenario) {
		s.responds(
			"",
			model.ToolCall{ProviderID: "p0", Name: "nothing", Arguments: `{}`},
			model.ToolCall{Name: "work", Arguments: `{"a":1,"a":2}`},
		)
		s.reasons(with(jobTool("work")))
		s.closes(s.Act(s.t.Context(), s.turn, facts{Planned: s.calls, Outcomes: map[string]tool.Outcome{
			"1-0": tool.Recalled(s.turn.Progress.ToolCalls[0]),
			"1-1": tool.Recalled(s.turn.Progress.ToolCalls[1]),
		}}.step()))
	},
	"model-fails": func(s *scenario) {
		s.fails(limited(0), limited(0), limited(0), limited(0), limited(0), limited(0))
		s.reasons(with())
	},
	"no-model":      func(s *scenario) { c := with(); c.Model = nil; s.reasons(c) },
	"quota-used-up": func(s *scenario) { s.fails(quotaUsedUp()); s.reasons(with()) },
	"fallback": func(s *scenario) {
		c := with()
		c.Model, c.Fallbacks = named("first"), []*v1alpha1.Model{priced(named("second"), "EUR", "1", "1")}
		s.fails(quotaUsedUp())
		s.reasons(c)
	},
	"a-call-that-no-client-answers": func(s *scenario) {
		c := s.asksForTools()
		results := s.results()
		results.Outcomes["1-2"] = act.NoClientOutcome()
		s.closes(s.Act(s.t.Context(), s.turn, results.step()))
		s.responds("Well.")
		s.reasons(c)
	},
	"steer": func(s *scenario) {
		s.reasons(steering(s, with()))
		s.turn.Steers = nil
		s.reasons(with())
	},
	"blocked": func(s *scenario) {
		c := with()
		c.Blocker = &config.Blocker{Dependency: config.DependencyAgent, State: config.DependencyDeleted}
		s.reasons(c)
	},
	"cancelled": func(s *scenario) { s.closes(s.Cancel(s.t.Context(), s.turn, nil)) },
	"cancelled-while-tools-run": func(s *scenario) {
		s.asksForTools()
		s.closes(
			s.Cancel(
				s.t.Context(),
				s.turn,
				facts{Planned: s.calls, Outcomes: map[string]tool.Outcome{"1-0": succeeded("42")}}.step(),
			),
		)
	},
	"deleted": func(s *scenario) { s.closes(s.Deleted(s.t.Context(), s.turn, nil)) },
	"deadline": func(s *scenario) {
		s.closes(s.Expire(s.t.Context(), s.turn, turnstate.DeadlineExceeded(time.Minute), nil))
	},
	"determinism-violation": func(s *scenario) {
		s.asksForTools()
		s.closes(
			s.Fail(
				s.t.Context(),
				s.turn,
				turnstate.DeterminismViolation(s.turn.Progress.ToolCalls[0], "tool-abc"),
				facts{Planned: s.calls}.step(),
			),
		)
	},
	"journal-full": func(s *scenario) {
		s.turn.Session.Limit = 4 << 10
		s.responds(strings.Repeat("long ", 2000))
		s.reasons(with())
	},
}

func quotaUsedUp() error {
	return provider.StatusError("Test", "m", 402, 0, "")
}

// steering has a message wait for the Turn.
func steering(s *scenario, c turnstate.Config) turnstate.Config {
	s.turn = steeredBy(s.turn, message("demo-2", "And Bob?"))
	return c
}

// TestWhatEventsSay decodes every event of every kind of step and compares type, time, context and data with a golden
// file. After a change that is meant, run the test with -update and read the difference.
// Rules: VEC-01, VEC-12.
func TestWhatEventsSay(t *testing.T) {
	for name, run := range scenarios {
		t.Run(name, func(t *testing.T) {
			s := newScenario(t)
			began := s.opening(s.turn)
			event.Identify(s.turn.Ref.UID, 1, began)
			opening := describe(t, began)
			run(s)
			got := describe(t, s.events)
			if name != "answer" {
				// Every Turn begins as that one does.
				got = strings.TrimPrefix(got, opening)
			}
			file := filepath.Join("testdata", "events", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
			for i := range max(len(gotLines), len(wantLines)) {
				if g, w := line0(gotLines, i), line0(wantLines, i); g != w {
					t.Errorf("event %d\n got %s\nwant %s", i, g, w)
				}
			}
		})
	}
}

func line0(lines []string, at int) string {
	if at < len(lines) {
		return lines[at]
	}
	return ""
}

// minted are ids that are new each time, spans, fences and fingerprints.
var minted = regexp.MustCompile(
	`[0-9a-f]{8}-[0-9a-f]{4}-[78][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{64}\b|\b[0-9a-f]{16}\b`,
)

// describe renders events, one a line. Ids are numbered in order, and the ids of the Turn, which every event has, are
// left out.
func describe(t *testing.T, events []event.Event) string {
	t.Helper()
	ids, seen := map[string]string{}, map[string]bool{}
	var text strings.Builder
	for _, e := range events {
		if id, err := uuid.Parse(e.ID); err != nil || id.Version() != 8 || seen[e.ID] {
			t.Errorf("%s has the id %q", e.Type, e.ID)
		}
		seen[e.ID] = true
		of := maps.Clone(e.Context)
		for _, key := range []string{"turn_id", "input_message_id"} {
			if of[key] != "turn-uid" {
				t.Errorf("%s has the context %v", e.Type, e.Context)
			}
			delete(of, key)
		}
		line := fmt.Sprintf("%s +%dms %s %s", e.Type, e.Time.Sub(started).Milliseconds(), sorted(t, of), sorted(t, e.Data))
		text.WriteString(minted.ReplaceAllStringFunc(line, func(id string) string {
			if ids[id] == "" {
				ids[id] = fmt.Sprintf("#%d", len(ids)+1)
			}
			return ids[id]
		}) + "\n")
	}
	return text.String()
}

// sorted is a value as JSON with sorted keys.
func sorted(t *testing.T, value any) string {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var decoded any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(decoded); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(text.String())
}

// TestTheRequestForAClientsResultDescribesTheTool: people see it, and a long description is cut (TOOL-17).
func TestTheRequestForAClientsResultDescribesTheTool(t *testing.T) {
	long := clientTool("long")
	long.Spec.Description = strings.Repeat("d", 4096)
	b := newBench(t)
	b.responds("", append(calls(1, "ask"), calls(1, "long")...)...)
	_, closed := b.reason(newTurn("demo-1"), with(clientTool("ask"), long))
	last := closed.Events[len(closed.Events)-1]
	requested, err := event.Decode[event.ToolCallRequested](last)
	if err != nil || last.Type != event.TypeToolCallRequested || len(requested.ToolCalls) != 2 {
		t.Fatalf("the last event is %s: %+v, %v", last.Type, requested, err)
	}
	if got := requested.ToolCalls[0]; got.Description != "Asks." || got.Arguments != "{}" {
		t.Errorf("the first call is %+v", got)
	}
	if got := requested.ToolCalls[1].Description; len(got) > 256 || !strings.HasPrefix(got, "ddd") {
		t.Errorf("the second call has a description of %d bytes", len(got))
	}
}
