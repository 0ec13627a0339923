package turnstate

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestSameLabels(t *testing.T) {
	long := strings.Repeat("x", 600)
	cached := func(labels map[string]string) *v1alpha1.Session {
		session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
		KeepLabels(session, labels)
		return session
	}
	for name, test := range map[string]struct {
		before, after map[string]string
		same          bool
	}{
		"the same":          {map[string]string{"team": "a"}, map[string]string{"team": "a"}, true},
		"another":           {map[string]string{"team": "a"}, map[string]string{"team": "b"}, false},
		"the same left out": {map[string]string{"a": long, "b": long}, map[string]string{"a": long, "b": long}, true},
		"another left out":  {map[string]string{"a": long, "b": long}, map[string]string{"a": long, "c": long}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := SameLabels(cached(test.before), cached(test.after)); got != test.same {
				t.Errorf("same: %t", got)
			}
		})
	}
}
