package inprocess_test

import (
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

func TestAFunctionThatPanics(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"look", "pay"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) { panic("no " + call.Tool) }))
	turn := run(t, runtime, message("demo-1", "Go."))
	if reason(turn) != "True EndTurn" {
		t.Fatalf("the Turn ended as %+v", turn.Status)
	}
	look, pay := turn.Status.ToolCalls[0], turn.Status.ToolCalls[1]
	if look.State != v1alpha1.ToolCallStateFailed || look.Reason != v1alpha1.ToolCallReasonPanicked || look.Attempt != 1 {
		t.Errorf("a Pure tool: %+v", look)
	}
	if pay.State != v1alpha1.ToolCallStateUnknown || pay.Reason != v1alpha1.ToolCallReasonPanicked {
		t.Errorf("an AtMostOnce tool: %+v", pay)
	}
}

func TestAFunctionThatTakesTooLong(t *testing.T) {
	c := &clock.Clock{}
	begun, stopped := make(chan struct{}), make(chan struct{})
	runtime := start(t, inprocess.WithClock(c), inprocess.WithSimulation(calling([]string{"pay"})),
		inprocess.WithTool("pay", func(call inprocess.Call) (string, string, int) {
			close(begun)
			<-call.Context.Done()
			close(stopped)
			return "late", "", 0
		}))
	go func() {
		<-begun
		c.Advance(30 * time.Second)
	}()
	turn := run(t, runtime, message("demo-1", "Go."))
	<-stopped
	if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateFailed ||
		call.Reason != v1alpha1.ToolCallReasonTimeout ||
		!strings.Contains(call.Preview, "after 30s") {
		t.Errorf("the call is %+v", call)
	}
}

func TestAToolThatNothingStandsInFor(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling([]string{"look"})))
	turn := run(t, runtime, message("demo-1", "Go."))
	if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateNotExecuted ||
		call.Reason != v1alpha1.ToolCallReasonNoFunction ||
		!strings.Contains(call.Preview, "WithTool") {
		t.Errorf("the call is %+v", call)
	}
}

// Rules: TOOL-03, TOOL-12.
func TestToolConcurrency(t *testing.T) {
	for name, test := range map[string]struct {
		yaml string
		most int32
	}{
		"in parallel": {"", 3},
		"one after another": {
			strings.Replace(base, "systemPrompt:", "toolConcurrency: Sequential\n  systemPrompt:", 1), 1,
		},
		"one class at a time": {
			strings.Replace(base, "sideEffect: Pure,", "sideEffect: Pure, concurrencyClass: eyes,", 1), 1,
		},
		"another class of all": {
			strings.Replace(base, "description: Pays.,", "description: Pays., concurrencyClass: purse,", 1), 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var running, most atomic.Int32
			all := make(chan struct{})
			runtime := start(
				t,
				inprocess.WithYAML(test.yaml),
				inprocess.WithSimulation(calling([]string{"look", "look", "look"})),
				inprocess.WithTools(func(inprocess.Call) (string, string, int) {
					n := running.Add(1)
					defer running.Add(-1)
					if n > most.Load() {
						most.Store(n)
					}
					if n == test.most && test.most > 1 {
						close(all)
					}
					if test.most > 1 {
						<-all
					}
					return "", "", 0
				}),
			)
			run(t, runtime, message("demo-1", "Go."))
			if most.Load() != test.most {
				t.Errorf("%d ran at once, want %d", most.Load(), test.most)
			}
		})
	}
}

// A call that cannot be made, or fails, ends neither the set nor the Turn, and takes no result of another call away.
// Rules: TOOL-02, TOOL-03, VEC-21.
func TestEachCallOfASetHasItsOwnOutcome(t *testing.T) {
	for concurrency, ordered := range map[v1alpha1.ToolConcurrency]bool{
		v1alpha1.ToolConcurrencySequential: true, v1alpha1.ToolConcurrencyParallel: false,
	} {
		t.Run(string(concurrency), func(t *testing.T) {
			var mu sync.Mutex
			var ran []string
			layer := strings.Replace(base, "systemPrompt:", "toolConcurrency: "+string(concurrency)+"\n  systemPrompt:", 1)
			runtime := start(t, inprocess.WithYAML(layer),
				inprocess.WithSimulation(calling([]string{"look", "dig", "pay", "look"})),
				inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
					mu.Lock()
					defer mu.Unlock()
					ran = append(ran, call.ID)
					if call.ID == "1-0" {
						return "", "it is dark", 1
					}
					return call.ID + " is done", "", 0
				}))
			turn := run(t, runtime, message("demo-1", "Go."))
			if !ordered {
				slices.Sort(ran)
			}
			if reason(turn) != "True EndTurn" || !slices.Equal(ran, []string{"1-0", "1-2", "1-3"}) {
				t.Errorf("the Turn ended with %s, and the calls %v ran", reason(turn), ran)
			}
			got := resultTexts(t, runtime)
			for i, want := range []string{"it is dark", "Tool definition not found: dig", "1-2 is done", "1-3 is done"} {
				if len(got) != 4 || !strings.Contains(got[i], want) {
					t.Fatalf("the model reads %q, want %q in text %d", got, want, i)
				}
			}
		})
	}
}

func TestHTTPToolsAreAsked(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte("rain"))
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	weather := `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: weather}
spec:
  description: Says the weather.
  http:
    url: ` + server.URL + `
    method: GET
    headers: [{name: Authorization, secretKeyRef: {name: key, key: token}}]
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, tools: [{name: weather}]}
`
	options := []inprocess.Option{
		inprocess.WithYAML(weather), inprocess.WithSecret("key", map[string]string{"token": "Bearer secret"}),
		inprocess.WithSimulation(calling([]string{"weather"})), inprocess.WithEgressRoots(roots),
	}
	runtime := start(t, append(options, inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")))...)
	if call := run(
		t, runtime, message("demo-1", "Go."),
	).Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateSucceeded ||
		call.Preview != "rain" {
		t.Errorf("the call is %+v", call)
	}
	runtime = start(t, options...)
	if call := run(
		t, runtime, message("demo-1", "Go."),
	).Status.ToolCalls[0]; call.Reason != v1alpha1.ToolCallReasonAddressRefused {
		t.Errorf("without the option, the call is %+v", call)
	}
}

// Rules: CFG-05, CTX-05.
func TestNetworkListsHoldWhatTheyHoldInAClusterToo(t *testing.T) {
	_, err := inprocess.New(
		t.Context(),
		inprocess.WithSimulation(calling()),
		inprocess.WithYAML(
			strings.Replace(base, "systemPrompt:", "networkAccess: {allowed: [example.org]}\n  systemPrompt:", 1),
		),
	)
	if err == nil || !strings.Contains(err.Error(), v1alpha1.ReasonNetworkAccessUnenforceable) {
		t.Errorf("New = %v", err)
	}
}
