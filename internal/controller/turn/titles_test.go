package turn

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// A Turn whose conversation has grown too large for another model call ends without a title for its Session.
//
// Rules: SVC-01.
func TestATurnWhoseConversationIsTooLargeEndsWithoutATitle(t *testing.T) {
	for name, test := range map[string]struct {
		ceiling int64
		title   string
	}{
		"too large": {fairshare.ConversationBytes(300), ""},
		"in bounds": {fairshare.ConversationBytes(1 << 20), "done"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			w.ceiling = test.ceiling
			session := w.session()
			w.change(session, func() {
				session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_title"}}
			})
			m := w.manager(0)
			m.Steps.Titles = Titles{Client: m.Client, Live: m.Live}
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
			if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseSucceeded {
				t.Errorf("the Turn is %s", phase)
			}
			if title := w.session().Status.Title; title != test.title {
				t.Errorf("the title is %q", title)
			}
		})
	}
}
