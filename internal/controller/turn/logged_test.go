package turn

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestTheLinesOfATurnNameItsTrace(t *testing.T) {
	for given, want := range map[string]string{
		"": `"trace_id"="6f8a1c9e00004000800000000000abcd"`,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": `"trace_id"="0af7651916cd43dd8448eb211c80319c"`,
	} {
		var line string
		logger := funcr.New(func(_, args string) { line = args }, funcr.Options{})
		turn := &v1alpha1.Turn{}
		turn.UID, turn.Spec.TraceParent = "6f8a1c9e-0000-4000-8000-00000000abcd", given
		turn.Spec.Input = "My secret"
		ctx := (&scope{turn: turn}).logged(ctrl.LoggerInto(t.Context(), logger))
		ctrl.LoggerFrom(ctx).Info("Turn status updated")
		if !strings.Contains(line, want) || !strings.Contains(line, `"span_id"="`) || strings.Contains(line, "secret") {
			t.Errorf("the line is %s", line)
		}
	}
}
