package session

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// TestADeletedTurnBeganWithItsAdmission: a Turn may be deleted before its status has the time.
func TestADeletedTurnBeganWithItsAdmission(t *testing.T) {
	for name, test := range map[string]struct {
		// of is the Turn that the recorded admission belongs to, after is the time from the admission to the beginning.
		of    types.UID
		after time.Duration
	}{
		"that is recorded":                      {of: "demo-1"},
		"although that of another is recorded":  {of: "another", after: 300 * time.Millisecond},
		"although none of any UID are recorded": {after: 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			turn := inDemo("demo-1", nil)
			b := newBench(t, newSession(), turn)
			b.pass()
			admitted := b.session()
			active := admitted.Status.ActiveTurn
			if active == nil || active.AdmittedUID != turn.UID {
				t.Fatalf("%+v is active", active)
			}
			active.AdmittedUID = test.of
			if err := b.Client.Status().Update(t.Context(), admitted); err != nil {
				t.Fatal(err)
			}
			b.known.recordWrite(demoKey, admitted.ResourceVersion)
			b.now = b.now.Add(300 * time.Millisecond)
			if err := b.Client.Delete(t.Context(), turn); err != nil {
				t.Fatal(err)
			}
			b.pass()
			closed, err := b.Steps.Log.Step(t.Context(), turnstate.JournalOf(admitted), turn.UID, 1)
			if err != nil {
				t.Fatal(err)
			}
			want := metav1.NewMicroTime(active.AdmittedAt.Add(test.after))
			if sum := closed.Transition.Summary; !sum.StartedAt.Equal(&want) || !sum.FinishedAt.Time.Equal(b.now) {
				t.Errorf("the Turn began at %s, want %s, and ended at %s", sum.StartedAt, want, sum.FinishedAt)
			}
		})
	}
}
