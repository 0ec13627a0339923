package session

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestATurnThatHasBegunInAnotherSessionOfTheNameIsNotAdmitted(t *testing.T) {
	tests := map[string]struct {
		begunIn types.UID
		want    bool
	}{
		"never begun":                    {"", true},
		"begun in this Session":          {"new", true},
		"begun in the Session before it": {"old", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Name: "demo-1", UID: "1"}}
			turn.Status.SessionUID = test.begunIn
			s := &scope{session: &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{UID: "new"}}, turns: []*v1alpha1.Turn{turn}}
			if got := s.next() != nil; got != test.want {
				t.Errorf("admitted: %t, want %t", got, test.want)
			}
		})
	}
}
