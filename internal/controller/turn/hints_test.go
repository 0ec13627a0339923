package turn

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A Turn whose Session cannot be read waits for the Session, not for less than its hints ask for.
// Rules: VEC-06.
func TestHintsThatCannotBeReadDecideNothing(t *testing.T) {
	w := newWorld(t).begin(builder.ClientTool("ask").Obj())
	session := w.session()
	w.change(session, func() {
		session.Spec.ClientTools = v1alpha1.ClientToolsPolicyFollowHints
		session.Spec.Hints = map[string]v1alpha1.JSON{v1alpha1.HintSetupConnection: {Raw: []byte("true")}}
	})
	unavailable, away := errors.New("unavailable"), false
	w.hooks = interceptor.Funcs{Get: func(
		ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
	) error {
		if _, ok := o.(*v1alpha1.Session); ok && away {
			return unavailable
		}
		return c.Get(ctx, key, o, options...)
	}}
	m := w.manager(0)
	m.until("the client is waited for", w.shows("ask", v1alpha1.ToolCallStateWaiting))
	away = true
	for range 3 {
		if _, err := m.pass(); !errors.Is(err, unavailable) {
			t.Errorf("a pass without the Session returns %v", err)
		}
	}
	if phase := w.turn().Status.Phase; phase != v1alpha1.TurnPhaseWaitingForToolResults || len(w.asked) != 1 {
		t.Errorf("the Turn is %s, after %d model calls", phase, len(w.asked))
	}
	away = false
	w.answer("ask", "yes")
	m.until("the end", w.finished)
	if text := w.resultText("ask"); text != "yes" || len(w.asked) != 2 {
		t.Errorf("the model received %q, in %d calls", text, len(w.asked))
	}
}
