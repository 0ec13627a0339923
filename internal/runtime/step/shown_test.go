package step

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// planning plans calls of a tool that waits for people, each with the same arguments.
func planning(t *testing.T, definition *v1alpha1.Tool, n int, arguments string) []v1alpha1.ToolCall {
	t.Helper()
	b := newBench(t)
	var made []model.ToolCall
	for range n {
		made = append(made, model.ToolCall{ProviderID: "p", Name: definition.Name, Arguments: arguments})
	}
	b.responds("", made...)
	turn, _ := b.reason(newTurn("demo-1"), with(definition))
	return turn.Progress.ToolCalls
}

func TestACallThatWaitsShowsItsArguments(t *testing.T) {
	client := &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "ask"},
		Spec:       v1alpha1.ToolSpec{Client: &v1alpha1.ClientTool{}},
	}
	for name, definition := range map[string]*v1alpha1.Tool{"for approval": guardedTool("pay"), "for a client": client} {
		t.Run(name, func(t *testing.T) {
			long := fmt.Sprintf(
				`{"comment": %q, "amount": 1000000, "to": "mallory"}`,
				strings.Repeat("refund as agreed, no more. ", 50),
			)
			for what, arguments := range map[string]string{"some": `{"euros": 40}`, "1.4 KiB": long, "none": ""} {
				call := planning(t, definition, 1, arguments)[0]
				if call.Arguments != tool.ArgumentsOrEmpty(arguments) || call.Preview != "" {
					t.Errorf("%s arguments: shown %q, preview %q", what, call.Arguments, call.Preview)
				}
			}
			huge := `{"a": "` + strings.Repeat("ü<", 3<<10) + `"}`
			call := planning(t, definition, 1, huge)[0]
			if len(call.Arguments) > 2<<10 || len(call.Arguments) < 1<<10 || !utf8.ValidString(call.Arguments) ||
				!strings.HasSuffix(call.Arguments, "…") {
				t.Errorf("%d of %d bytes are shown", len(call.Arguments), len(huge))
			}
			want := fmt.Sprintf(
				"The arguments have %d bytes and are not shown in full. The journal has them: calls with id 1-0, of this Turn.",
				len(huge),
			)
			if call.Preview != want || len(want) > tool.MaxPreviewBytes {
				t.Errorf("the call reports %q", call.Preview)
			}
			calls := planning(t, definition, 20, `{"euros": 40}`)
			for i, call := range calls {
				if shown := call.Arguments != ""; shown != (i < 16) || shown == (call.Preview != "") {
					t.Errorf("call %d of 20 shows %q and reports %q", i, call.Arguments, call.Preview)
				}
			}
			for i, call := range planning(t, definition, 16, `{"a": "`+strings.Repeat("x", 4<<10)+`"}`) {
				if len(call.Arguments) != 2<<10 {
					t.Errorf("call %d of 16 shows %d bytes of its arguments", i, len(call.Arguments))
				}
			}
		})
	}
}

// Also while calls wait, and while those that were approved first have ended, the status stays below 64 KiB.
func TestTheLargestStatusThatWaitsFits(t *testing.T) {
	for _, text := range []string{"x", "<", "\u2028", "😀", "\""} {
		arguments, err := json.Marshal(map[string]string{"a": strings.Repeat(text, 4<<10)})
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 16, 17, 32, 48, 64, 128} {
			definition := guardedTool(strings.Repeat("t", 63))
			definition.UID, definition.Spec.ConcurrencyClass = "01234567-0123-0123-0123-0123456789ab", strings.Repeat("c", 63)
			definition.Spec.Hints = []v1alpha1.ToolHint{v1alpha1.ToolHintDestructive, v1alpha1.ToolHintOpenWorld}
			progress := v1alpha1.TurnProgress{ToolCalls: planning(t, definition, n, string(arguments))}
			for ended := range len(progress.ToolCalls) + 1 {
				if ended > 0 {
					// From the last on, which show nothing.
					call := &progress.ToolCalls[len(progress.ToolCalls)-ended]
					act.Approve(call)
					call.PodUID, call.PodName = "01234567-0123-0123-0123-0123456789ab", strings.Repeat("p", 32)
					result := strings.Repeat(text, 500)
					act.Describe(
						call,
						tool.Outcome{
							State:  v1alpha1.ToolCallStateSucceeded,
							Reason: v1alpha1.ToolCallReasonUnschedulable,
							Result: &result,
						},
					)
					if call.Arguments != "" || call.CallDigest != "" || call.Hints != nil {
						t.Fatal("a call that has ended shows its arguments")
					}
				}
				raw, err := json.Marshal(progress)
				if err != nil {
					t.Fatal(err)
				}
				const conditions, summary = 5 * (1024 + 256), 3 << 10
				if len(raw)+conditions+summary >= 63<<10 {
					t.Fatalf(
						"%d calls with %q, %d of them ended: the status takes %d bytes",
						n,
						text,
						ended,
						len(raw)+conditions+summary,
					)
				}
			}
		}
	}
}
