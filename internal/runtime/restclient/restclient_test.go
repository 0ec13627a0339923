package restclient

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestWhatAnErrorOfAWriteMeans: after an error of an unknown kind, the write may have happened.
func TestWhatAnErrorOfAWriteMeans(t *testing.T) {
	records := schema.GroupResource{Group: "capstan.dev", Resource: "records"}
	unserved := func() error {
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "get", records, "a", "", 0, true)
	}
	for name, test := range map[string]struct {
		err                       error
		missing, invalid, refused bool
	}{
		"no such object":       {err: apierrors.NewNotFound(records, "a"), missing: true, refused: true},
		"no such kind":         {err: unserved(), refused: true},
		"a missing permission": {err: apierrors.NewForbidden(records, "a", errors.New("no role")), refused: true},
		"no user":              {err: apierrors.NewUnauthorized("who?"), refused: true},
		"no such verb":         {err: apierrors.NewMethodNotSupported(records, "get"), refused: true},
		"a broken schema":      {err: apierrors.NewInvalid(schema.GroupKind{Kind: "Record"}, "a", nil), invalid: true},
		"a bad request":        {err: apierrors.NewBadRequest("no JSON"), invalid: true},
		"a large object":       {err: apierrors.NewRequestEntityTooLargeError("3 MiB"), invalid: true},
		"a conflict":           {err: apierrors.NewConflict(records, "a", errors.New("changed"))},
		"a timeout":            {err: apierrors.NewTimeoutError("slow", 1)},
		"too many requests":    {err: apierrors.NewTooManyRequestsError("later")},
		"a lost connection":    {err: errors.New("EOF")},
	} {
		t.Run(name, func(t *testing.T) {
			missing, invalid, refused := IsMissing(test.err), IsInvalid(test.err), IsRefused(test.err)
			if missing != test.missing || invalid != test.invalid || refused != test.refused {
				t.Errorf("missing %t, invalid %t, refused %t", missing, invalid, refused)
			}
		})
	}
}
