package journal

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func TestWhatKeepsAJournalFromGrowing(t *testing.T) {
	quota := apierrors.NewForbidden(
		schema.GroupResource{Group: "capstan.dev", Resource: "journalentries"},
		"x",
		errors.New("exceeded quota: few"),
	)
	for name, test := range map[string]struct {
		err     error
		reason  string
		message string
		pauses  []time.Duration
	}{
		"quota": {
			fmt.Errorf("closing step 1: %w", errors.Join(ErrRefused, quota)), v1alpha1.ReasonJournalRefused,
			`for Session "demo": journalentries.capstan.dev "x" is forbidden: exceeded quota: few. Remove the cause`,
			[]time.Duration{
				10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute,
				5 * time.Minute,
			},
		},
		"damage": {
			fmt.Errorf("closing step 1: %w: the entry at ordinal 2 is missing", ErrCorrupt), v1alpha1.ReasonJournalDamaged,
			"(the journal is damaged: the entry at ordinal 2 is missing). Restore",
			[]time.Duration{5 * time.Minute, 5 * time.Minute},
		},
		"format": {
			fmt.Errorf("closing step 1: %w 9, at ordinal 2", ErrFormat), v1alpha1.ReasonJournalFormatUnsupported,
			"(the journal has an entry of an unknown format 9, at ordinal 2). Upgrade the manager",
			[]time.Duration{5 * time.Minute},
		},
		"PostgreSQL": {
			fmt.Errorf("closing step 1: %w", errors.Join(ErrRefused, ErrPostgres, errors.New("no space"))),
			v1alpha1.ReasonJournalRefused, `PostgreSQL rejects journal entries for Session "demo"`,
			[]time.Duration{10 * time.Second},
		},
		"no access": {
			fmt.Errorf("closing step 1: %w", errors.Join(ErrRefused, fmt.Errorf("%w: Postgres", ErrNoStore))),
			v1alpha1.ReasonStoreUnavailable, "(this manager has no access to the store of the Session: Postgres). Configure",
			[]time.Duration{5 * time.Minute},
		},
		"timeout": {err: errors.New("timeout")},
		"full":    {err: ErrFull},
		"none":    {},
	} {
		t.Run(name, func(t *testing.T) {
			o := ObstacleOf(test.err, "demo")
			if o == nil {
				if test.reason != "" {
					t.Fatal("it is taken for an error that passes")
				}
				return
			}
			if o.Reason != test.reason || !strings.Contains(o.Message, test.message) {
				t.Errorf("%s: %s", o.Reason, o.Message)
			}
			for i, want := range test.pauses {
				if got := o.Pause(i + 1); got != want {
					t.Errorf("after look %d a pause of %v, want %v", i+1, got, want)
				}
			}
		})
	}
}

func TestTheWordingOfWhatIsNotStored(t *testing.T) {
	for want, err := range map[string]error{
		"The API server does not store journal entries": errors.New("timeout"),
		"PostgreSQL does not store journal entries":     errors.Join(ErrPostgres, errors.New("timeout")),
	} {
		o := NotStored(err, "demo")
		if !strings.HasPrefix(o.Message, want) || strings.Contains(o.Message, "etcd") == errors.Is(err, ErrPostgres) {
			t.Error(o.Message)
		}
	}
}
