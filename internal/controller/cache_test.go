package controller

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
)

// lastApplied is the annotation in which kubectl apply repeats the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// fullTurn is a Turn with all fields that the cache may drop, in a step of its plan.
func fullTurn(step int32, finished metav1.ConditionStatus) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:     "ns",
			Name:          "demo-1",
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
	}
	turn.Annotations = map[string]string{lastApplied: "{}", "example.com/note": "x", "capstan.dev/kept": "y"}
	turn.Spec.SessionRef.Name = "demo"
	turn.Spec.Message = &v1alpha1.TurnMessage{Content: []v1alpha1.MessagePart{
		{Text: "Hello"}, {Image: &v1alpha1.MessageImage{Data: "AAAA"}}, {Text: strings.Repeat("x", 64<<10)},
	}}
	turn.Status.Plan = &v1alpha1.TurnPlan{Step: step}
	turn.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionFinished, Status: finished}}
	turn.Status.Output, turn.Status.ToolCalls = "Hello.", []v1alpha1.ToolCall{
		{ID: "1-0", Executor: v1alpha1.ToolExecutorJob, Preview: "done"},
		{ID: "1-1", Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateSucceeded, Preview: "given"},
	}
	return turn
}

// brief is an object as JSON, without the most of a long message.
func brief(object any) string {
	raw, _ := json.Marshal(object)
	return strings.ReplaceAll(string(raw), strings.Repeat("x", 512), "")
}

func TestATurnIsKeptWithWhatItsNextStepsNeed(t *testing.T) {
	for name, test := range map[string]struct {
		step     int32
		finished metav1.ConditionStatus
		want     func(kept *v1alpha1.Turn)
	}{
		"its message is not in the journal": {1, metav1.ConditionFalse, func(kept *v1alpha1.Turn) {
			kept.Spec.Input, kept.Spec.Message = "Hello\n"+strings.Repeat("x", 2<<10-5), &v1alpha1.TurnMessage{}
			kept.Annotations["capstan.dev/message-bytes"] = "65545"
		}},
		"its message is in the journal": {2, metav1.ConditionFalse, func(kept *v1alpha1.Turn) {
			kept.Spec.Input, kept.Spec.Message = "Hello\n"+strings.Repeat("x", 2<<10-5), nil
		}},
		"it has ended": {3, metav1.ConditionTrue, func(kept *v1alpha1.Turn) {
			kept.Spec.Message, kept.Status.Output, kept.Status.ToolCalls = nil, "", kept.Status.ToolCalls[1:]
			kept.Status.ToolCalls[0].Preview = ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := fullTurn(test.step, test.finished)
			want.ManagedFields, want.Annotations = nil, map[string]string{"capstan.dev/kept": "y"}
			test.want(want)
			got, err := stripTurn(fullTurn(test.step, test.finished))
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("kept\n%s, %v\nwant\n%s", brief(got), err, brief(want))
			}
			// After a relist the cache transforms its objects again.
			if again, err := stripTurn(got.(*v1alpha1.Turn).DeepCopy()); err != nil || !reflect.DeepEqual(again, want) {
				t.Errorf("the second time, kept\n%s, %v", brief(again), err)
			}
		})
	}
}

func TestAToolResultIsKeptWithoutWhatItGivesOnceItIsDecided(t *testing.T) {
	text, long := "result", strings.Repeat("x", 64<<10)
	if got, err := stripToolResult(&v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{Result: &long}}); err != nil ||
		got.(*v1alpha1.ToolResult).Spec.Result != nil {
		t.Errorf("a long text that nothing has taken yet is kept, %v", err)
	}
	for accepted, dropped := range map[metav1.ConditionStatus]bool{
		metav1.ConditionTrue: true, metav1.ConditionFalse: true, metav1.ConditionUnknown: false, "": false,
	} {
		result := &v1alpha1.ToolResult{Spec: v1alpha1.ToolResultSpec{CallID: "1-0", Result: &text, Error: &text}}
		if accepted != "" {
			result.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: accepted}}
		}
		got, err := stripToolResult(result)
		kept := got.(*v1alpha1.ToolResult).Spec
		if err != nil || (kept.Result == nil) != dropped || (kept.Error == nil) != dropped || kept.CallID != "1-0" {
			t.Errorf("Accepted %q: kept %+v, %v", accepted, kept, err)
		}
	}
}

func TestASessionIsKeptWithTheHintThatIsRead(t *testing.T) {
	session := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{Hints: map[string]v1alpha1.JSON{
		"setup_connection": {Raw: []byte("true")}, "theme": {Raw: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)},
	}}}
	if _, err := stripSession(
		session,
	); err != nil || len(session.Spec.Hints) != 1 ||
		string(session.Spec.Hints["setup_connection"].Raw) != "true" {
		t.Errorf("the cache keeps %d hints, %v", len(session.Spec.Hints), err)
	}
	session.Spec.Hints["setup_connection"] = v1alpha1.JSON{Raw: []byte(`"` + strings.Repeat("x", 64) + `"`)}
	if _, err := stripSession(session); err != nil || len(session.Spec.Hints) != 0 {
		t.Errorf("the cache keeps %d hints, %v", len(session.Spec.Hints), err)
	}
}

// The Session of a Schedule is pinned for the user in submittedBy: without it in the cache, it would be for no user.
// Rules: SCHED-04.
func TestAScheduleIsKeptWithItsUserAndWithoutItsMessage(t *testing.T) {
	got, err := stripSchedule(&v1alpha1.Schedule{Spec: v1alpha1.ScheduleSpec{
		Schedule: "@daily", SubmittedBy: "ann", Turn: v1alpha1.ScheduledTurn{Input: "Report."},
		SessionTemplate: &v1alpha1.SessionTemplate{Title: "Reports"},
	}})
	want := &v1alpha1.Schedule{Spec: v1alpha1.ScheduleSpec{
		Schedule: "@daily", SubmittedBy: "ann", SessionTemplate: &v1alpha1.SessionTemplate{},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("it is kept as %+v, %v", got, err)
	}
}

func TestASessionIsKeptWithoutTheHooksAtItsEnd(t *testing.T) {
	session := &v1alpha1.Session{Status: v1alpha1.SessionStatus{Hooks: &v1alpha1.SessionHooks{
		End: []v1alpha1.PinnedHook{{ID: "session:bye", Hook: v1alpha1.Hook{Bash: &v1alpha1.BashHook{Command: "true"}}}},
	}}}
	session.Finalizers = []string{"example.com/theirs", v1alpha1.FinalizerSessionEnd}
	_, err := stripSession(session)
	end := session.Status.Hooks.End
	if err != nil || len(end) != 1 || end[0].ID != "session:bye" || end[0].Hook.Bash != nil {
		t.Errorf("the cache keeps %+v, %v", end, err)
	}
	if !slices.Equal(session.Finalizers, []string{v1alpha1.FinalizerSessionEnd}) {
		t.Errorf("the cache keeps the finalizers %v", session.Finalizers)
	}
}

func TestEveryKindIsKeptWithoutTheAnnotationsOfOthers(t *testing.T) {
	options := CacheOptions()
	transforms := map[string]func(any) (any, error){"Harness": options.DefaultTransform}
	objects := map[string]client.Object{"Harness": &v1alpha1.Harness{}}
	for object, by := range options.ByObject {
		name := reflect.TypeOf(object).Elem().Name()
		transforms[name], objects[name] = by.Transform, object
	}
	for name, object := range objects {
		object.SetAnnotations(map[string]string{lastApplied: "{}", v1alpha1.AnnotationDefaultModel: "true"})
		object.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
		got, err := transforms[name](object)
		if err != nil {
			t.Fatal(err)
		}
		kept := got.(client.Object)
		if a := kept.GetAnnotations(); len(a) != 1 || a[v1alpha1.AnnotationDefaultModel] != "true" ||
			kept.GetManagedFields() != nil {
			t.Errorf("of a %s the cache keeps the annotations %v and %v", name, a, kept.GetManagedFields())
		}
	}
}

// Fields that the cache lacks must not be removed from the object in the API server.
func TestAWriteFromACachedObjectLosesNothing(t *testing.T) {
	text := "result"
	decided := &v1alpha1.ToolResult{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ann", Annotations: map[string]string{lastApplied: "{}"}},
	}
	decided.Spec.Result = &text
	decided.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionAccepted, Status: metav1.ConditionTrue}}
	for name, object := range map[string]client.Object{
		"a Turn that is queued": fullTurn(0, metav1.ConditionFalse),
		"a Turn behind its first step": fullTurn(
			2, metav1.ConditionFalse,
		), "a Turn that has ended": fullTurn(3, metav1.ConditionTrue), "a ToolResult": decided,
	} {
		t.Run(name, func(t *testing.T) {
			object.SetManagedFields(nil)
			c := fake.NewClientBuilder().
				WithScheme(NewScheme()).
				WithStatusSubresource(&v1alpha1.Turn{}, &v1alpha1.ToolResult{}).
				WithObjects(object).
				Build()
			stored := func() client.Object {
				t.Helper()
				o := object.DeepCopyObject().(client.Object)
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(object), o); err != nil {
					t.Fatal(err)
				}
				return o
			}
			before := stored()
			transform := stripToolResult
			if _, is := object.(*v1alpha1.Turn); is {
				transform = stripTurn
			}
			cached, err := transform(stored())
			if err != nil {
				t.Fatal(err)
			}
			base := cached.(client.Object)
			next := base.DeepCopyObject().(client.Object)
			observe(next, 7)
			if changed, err := status.Patch(t.Context(), c, base, next); err != nil || !changed {
				t.Fatalf("written: %v, %v", changed, err)
			}
			observe(before, 7)
			after := stored()
			before.SetResourceVersion(after.GetResourceVersion())
			if !apiequality.Semantic.DeepEqual(after, before) {
				t.Errorf("after the write\n%s\nwant\n%s", brief(after), brief(before))
			}
		})
	}
}

// observe sets the generation that the status is about.
func observe(object client.Object, generation int64) {
	switch o := object.(type) {
	case *v1alpha1.Turn:
		o.Status.ObservedGeneration = generation
	case *v1alpha1.ToolResult:
		o.Status.ObservedGeneration = generation
	}
}

// heldBy is the memory that 1,000 Turns of 64 KiB take, applied with kubectl, in a step of their plan.
func heldBy(transform func(any) (any, error), step int32, finished metav1.ConditionStatus) int64 {
	turns := make([]any, 1000)
	before := heap()
	for i := range turns {
		turn := fullTurn(step, finished)
		turn.Name = fmt.Sprintf("demo-%d", i)
		turn.Annotations[lastApplied] = strings.Repeat("x", 64<<10)
		turns[i], _ = transform(turn)
	}
	held := heap() - before
	runtime.KeepAlive(turns)
	return held
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTurnsTakeLittleMemoryWhereverTheyAre(t *testing.T) {
	for name, test := range map[string]struct {
		step     int32
		finished metav1.ConditionStatus
		most     int64
	}{
		"queued":   {0, metav1.ConditionFalse, 6 << 20},
		"finished": {3, metav1.ConditionTrue, 3 << 20},
		"waiting":  {2, metav1.ConditionFalse, 6 << 20},
	} {
		whole := heldBy(func(o any) (any, error) { return o, nil }, test.step, test.finished)
		kept := heldBy(stripTurn, test.step, test.finished)
		t.Logf(
			"1,000 %s Turns of 64 KiB: %d KiB in the cache, %d KiB as they are in the API server",
			name,
			kept>>10,
			whole>>10,
		)
		if kept > test.most || whole < 20*kept {
			t.Errorf("1,000 %s Turns take %d bytes, want at most %d; whole, they take %d", name, kept, test.most, whole)
		}
	}
}
