package keeper

import (
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// losing makes a reservation fail of which the last write was stored.
func losing(t *testing.T, limit string) (*store, *Keeper) {
	t.Helper()
	s := newStore(limited("b", v1alpha1.BudgetLimit(limit)))
	k := newKeeper(s)
	writes := 0
	s.fault = func() fault {
		writes++
		switch {
		case writes < failuresOfReserve:
			return lostRequest
		case writes == failuresOfReserve:
			return lostResponse
		default:
			return none
		}
	}
	if _, err := k.Reserve(t.Context(), payer(1), called(), model.Request{}); err == nil {
		t.Fatal("it is reserved")
	}
	return s, k
}

func TestACallThatIsTriedAgainAfterALostResponseIsCounted(t *testing.T) {
	s, k := losing(t, "10000")
	charge, err := k.Reserve(t.Context(), payer(1), called(), model.Request{})
	if err != nil {
		t.Fatal(err)
	}
	charge.Settle(Outcome{Usage: &model.Usage{InputTokens: 700, OutputTokens: 400}})
	flush(t, k)
	if status := s.get("b").Status; status.Spent != "1100" || len(status.Reservations) > 0 {
		t.Errorf("spent %s, reservations %v", status.Spent, status.Reservations)
	}
}

func TestAReservationThatFailedIsRemovedWithoutAnotherCall(t *testing.T) {
	s, k := losing(t, "2000")
	flush(t, k)
	if left := s.get("b").Status.Reservations; len(left) > 0 {
		t.Fatalf("left are %v", left)
	}
	if _, err := k.Reserve(t.Context(), payer(2), called(), model.Request{}); err != nil {
		t.Error(err)
	}
}

// What an ended process has reserved for a step counts in full as soon as the step is tried again.
func TestATurnDoesNotWaitForTheReservationOfAnEndedProcess(t *testing.T) {
	for limit, fits := range map[v1alpha1.BudgetLimit]bool{"2000": false, "10000": true} {
		s := newStore(limited("b", limit))
		if _, err := newKeeper(s).Reserve(t.Context(), payer(1), called(), model.Request{}); err != nil {
			t.Fatal(err)
		}
		k := newKeeper(s)
		_, err := k.Reserve(t.Context(), payer(1), called(), model.Request{})
		var refusal *budget.Refusal
		if fits != (err == nil) || !fits && (!errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonBudgetExhausted) {
			t.Errorf("with limit %s: %v", limit, err)
		}
		if status := s.get("b").Status; status.Spent == "0" {
			t.Errorf("with limit %s: spent %s, reservations %v", limit, status.Spent, status.Reservations)
		}
	}
}
