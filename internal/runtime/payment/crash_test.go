package payment

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

var walletScope = record.Scope{Namespace: "default", Secret: "wallet", UID: "wallet-uid", Store: StoreName}

var errKilled = errors.New("the process was killed")

// killed is a store whose writes fail after a number of them: those of a process that was killed.
type killed struct {
	record.Store
	left int
}

func (k *killed) Update(
	ctx context.Context, s record.Scope, c record.Cause, decide record.Decide,
) (record.Outcome, error) {
	if k.left == 0 {
		return record.Outcome{}, errKilled
	}
	k.left--
	return k.Store.Update(ctx, s, c, decide)
}

// TestACallIsPaidAtMostOnceWhereverItsProcessIsKilled: the second process runs the same call, as it may for a tool
// that is Idempotent. A process writes four times: it reserves in two ledgers, and ends in two.
//
// Rules: PAY-01.
func TestACallIsPaidAtMostOnceWhereverItsProcessIsKilled(t *testing.T) {
	for name, c := range map[string]struct {
		writes int
		fault  faulty
		// paid by both processes, and the state that the second one leaves.
		paid  int
		state State
	}{
		"before anything is reserved":            {writes: 0, paid: 1, state: StateSettled},
		"between the two ledgers":                {writes: 1, paid: 1, state: StateSettled},
		"between the signature and the request":  {writes: 2, fault: faulty{before: kill}, paid: 1, state: StateSettled},
		"between the request and its response":   {writes: 2, fault: faulty{after: kill}, paid: 1, state: StateUnconfirmed},
		"between the response and the ledger":    {writes: 2, paid: 1, state: StateUnconfirmed},
		"between the ledgers, after the payment": {writes: 3, paid: 1, state: StateSettled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.wallets()
			first.Records = &killed{Store: w.store, left: c.writes}
			c.fault.Sender = first.Egress
			first.Egress = &c.fault
			_, _ = first.Pay(t.Context(), w.request("turn", "1-0"))

			w.pass(30 * time.Second)
			result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			var refusal *Refusal
			if err != nil && !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			if len(w.chain.Paid()) != c.paid || result.Attempt == nil || result.Attempt.State != c.state {
				t.Errorf("paid %v, attempt %+v, %v", w.chain.Paid(), result.Attempt, err)
			}
			if w.spent() != 10_000 {
				t.Errorf("%d counts", w.spent())
			}
		})
	}
}

func kill() error { return errKilled }

// TestTheSameAuthorizationIsSentAgain: byte for byte, as long as it is valid.
func TestTheSameAuthorizationIsSentAgain(t *testing.T) {
	w := newWorld(t)
	var headers []string
	w.seller.BeforeSettlement = func(_ http.ResponseWriter, r *http.Request) bool {
		headers = append(headers, r.Header.Get("Payment-Signature"))
		return false
	}
	first := w.wallets()
	first.Egress = &faulty{Sender: first.Egress, after: kill}
	_, _ = first.Pay(t.Context(), w.request("turn", "1-0"))
	w.pass(30 * time.Second)
	if _, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0")); err != nil {
		t.Fatal(err)
	}
	if len(headers) != 2 || headers[0] != headers[1] || len(w.chain.Paid()) != 1 {
		t.Errorf("%d payments, paid %v", len(headers), w.chain.Paid())
	}
}

func TestAnAttemptThatMayHaveBeenPaidIsNotReplaced(t *testing.T) {
	for name, change := range map[string]func(*world){
		"by another price": func(w *world) { w.seller.Price = 5_000 },
		"by another payee": func(w *world) { w.seller.Payee[0]++ },
		"once it is over":  func(w *world) { w.pass(61 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first := w.wallets()
			first.Egress = &faulty{Sender: first.Egress, before: kill}
			_, _ = first.Pay(t.Context(), w.request("turn", "1-0"))
			change(w)
			result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != ReasonSpent || result.Attempt == nil ||
				result.Attempt.State != StateReserved || w.seller.Payments() != 0 || w.spent() != 10_000 {
				t.Errorf("%+v, %v; %d counts", result.Attempt, err, w.spent())
			}
		})
	}
}

// TestAPaymentThatWasNotSentIsReleased, unless another process may have sent it.
func TestAPaymentThatWasNotSentIsReleased(t *testing.T) {
	notSent := func() error { return &egress.Error{Reason: egress.ReasonUnreachable} }
	w := newWorld(t)
	first := w.wallets()
	first.Egress = &faulty{Sender: first.Egress, before: notSent}
	result, err := first.Pay(t.Context(), w.request("turn", "1-0"))
	if err == nil || result.Attempt.State != StateNotSent || w.spent() != 0 {
		t.Fatalf("%+v, %v; %d counts", result.Attempt, err, w.spent())
	}
	// The next try pays.
	if result, err = w.wallets().Pay(t.Context(), w.request("turn", "1-0")); err != nil || w.spent() != 10_000 ||
		result.Attempt.State != StateSettled || len(w.chain.Paid()) != 1 {
		t.Fatalf("%+v, %v; %d counts", result.Attempt, err, w.spent())
	}

	w = newWorld(t)
	first, second := w.wallets(), w.wallets()
	first.Egress = &faulty{Sender: first.Egress, before: func() error {
		// Meanwhile another process carries out the same call, and is killed.
		second.Egress = &faulty{Sender: second.Egress, after: kill}
		_, _ = second.Pay(t.Context(), w.request("turn", "1-0"))
		return notSent()
	}}
	result, err = first.Pay(t.Context(), w.request("turn", "1-0"))
	if err == nil || result.Attempt.State != StateReserved || len(w.chain.Paid()) != 1 || w.spent() != 10_000 {
		t.Errorf("%+v, %v; %d counts, paid %v", result.Attempt, err, w.spent(), w.chain.Paid())
	}
}

// TestTheLedgerIsNeededForAPayment: without it, nothing is signed.
func TestTheLedgerIsNeededForAPayment(t *testing.T) {
	w := newWorld(t)
	wallets := w.wallets()
	wallets.Records = &killed{Store: w.store}
	if _, err := wallets.Pay(
		t.Context(),
		w.request("turn", "1-0"),
	); !errors.Is(err, errKilled) ||
		w.seller.Payments() != 0 {
		t.Errorf("%v after %d payments", err, w.seller.Payments())
	}
}
