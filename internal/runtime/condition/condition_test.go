package condition

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var (
	early = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	late  = metav1.NewTime(early.Add(time.Hour))
)

func TestSetKeepsTheOrderAndTheOthers(t *testing.T) {
	var conditions []metav1.Condition
	for _, kind := range []string{"C", "A", "B"} {
		Set(&conditions, 1, early, kind, metav1.ConditionTrue, "Fine", "All is well.")
	}
	before := append([]metav1.Condition(nil), conditions...)
	Set(&conditions, 2, late, "A", metav1.ConditionFalse, "Broken", "It broke.")

	want := []metav1.Condition{
		before[0],
		{
			Type:               "A",
			Status:             metav1.ConditionFalse,
			ObservedGeneration: 2,
			LastTransitionTime: late,
			Reason:             "Broken",
			Message:            "It broke.",
		},
		before[2],
	}
	if !reflect.DeepEqual(conditions, want) {
		t.Errorf("conditions = %+v, want %+v", conditions, want)
	}
}

func TestSetMovesTheTransitionTimeOnlyWithTheStatus(t *testing.T) {
	for name, test := range map[string]struct {
		current metav1.Condition
		want    metav1.Time
	}{
		"the same again": {
			current: metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: early, Reason: "Fine", Message: "So."},
			want:    early,
		},
		"another reason": {
			current: metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: early, Reason: "Other"}, want: early,
		},
		"another status": {
			current: metav1.Condition{Status: metav1.ConditionFalse, LastTransitionTime: early}, want: late,
		},
		"unknown before": {
			current: metav1.Condition{Status: metav1.ConditionUnknown, LastTransitionTime: early}, want: late,
		},
		"no transition time": {current: metav1.Condition{Status: metav1.ConditionTrue}, want: late},
		"an earlier default": {
			current: metav1.Condition{Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(0, 0)}, want: late,
		},
		"no condition before": {want: late},
	} {
		t.Run(name, func(t *testing.T) {
			var conditions []metav1.Condition
			if test.current.Status != "" {
				test.current.Type = "Ready"
				conditions = append(conditions, test.current)
			}
			Set(&conditions, 7, metav1.NewTime(late.Add(400*time.Millisecond)), "Ready", metav1.ConditionTrue, "Fine", "So.")
			want := metav1.Condition{
				Type:               "Ready",
				Status:             metav1.ConditionTrue,
				ObservedGeneration: 7,
				LastTransitionTime: test.want,
				Reason:             "Fine",
				Message:            "So.",
			}
			if len(conditions) != 1 || conditions[0] != want {
				t.Errorf("conditions = %+v, want %+v", conditions, want)
			}
		})
	}
}

func TestSetCutsLongMessagesBetweenCharacters(t *testing.T) {
	for shift := range 4 {
		message := strings.Repeat("x", shift) + strings.Repeat("€", 400)
		var conditions []metav1.Condition
		Set(&conditions, 1, early, "Ready", metav1.ConditionTrue, "Fine", message)
		got := conditions[0].Message
		if len(got) > MaxMessageBytes || len(got) < MaxMessageBytes-3 || !utf8.ValidString(got) ||
			!strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes, ending with %q", len(got), got[len(got)-8:])
		}
	}
	exact := strings.Repeat("x", MaxMessageBytes)
	var conditions []metav1.Condition
	Set(&conditions, 1, early, "Ready", metav1.ConditionTrue, "Fine", exact)
	if conditions[0].Message != exact {
		t.Errorf("a message of %d bytes was cut", MaxMessageBytes)
	}
}

func TestSetReadyIsTrueForTheReasonReadyAlone(t *testing.T) {
	for reason, want := range map[string]bool{v1alpha1.ReasonReady: true, v1alpha1.ReasonArchived: false} {
		var conditions []metav1.Condition
		SetReady(&conditions, 3, early, reason, "So.")
		if got := meta.IsStatusConditionTrue(
			conditions,
			v1alpha1.ConditionReady,
		); got != want ||
			conditions[0].Reason != reason {
			t.Errorf("SetReady(%s) = %+v", reason, conditions)
		}
	}
}

// show writes conditions as Type=Status Reason, in their order.
func show(conditions []metav1.Condition) string {
	var words []string
	for _, c := range conditions {
		words = append(words, c.Type+"="+string(c.Status)+" "+c.Reason)
	}
	return strings.Join(words, ", ")
}

func TestSetStalledIsThereOnlyWhileItIsTrue(t *testing.T) {
	conditions := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Broken"}}
	SetStalled(&conditions, 2, early, true, "Broken", "So.")
	if got, want := show(
		conditions,
	), "Ready=False Broken, Stalled=True Broken"; got != want ||
		conditions[1].ObservedGeneration != 2 {
		t.Errorf("conditions = %s, want %s", got, want)
	}
	for range 2 {
		SetStalled(&conditions, 3, late, false, "Fine", "So.")
		if got, want := show(conditions), "Ready=False Broken"; got != want {
			t.Errorf("conditions = %s, want %s", got, want)
		}
	}
}

func TestSetAcceptedReportsTheStateToKstatus(t *testing.T) {
	var conditions []metav1.Condition
	for _, step := range []struct {
		status metav1.ConditionStatus
		want   string
	}{
		{metav1.ConditionUnknown, "Accepted=Unknown So, Reconciling=True So"},
		{metav1.ConditionFalse, "Accepted=False So, Stalled=True So"},
		{metav1.ConditionTrue, "Accepted=True So"},
	} {
		SetAccepted(&conditions, 1, early, step.status, "So", "So.")
		if got := show(conditions); got != step.want {
			t.Errorf("Accepted=%s: conditions = %s, want %s", step.status, got, step.want)
		}
	}
}
