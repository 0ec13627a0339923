package payment

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
)

// Rules: PAY-01.
func TestARequestIsPaidOnceAndItsReceiptIsReturned(t *testing.T) {
	w := newWorld(t)
	result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
	if err != nil {
		t.Fatal(err)
	}
	paid := w.chain.Paid()
	if len(paid) != 1 || paid[0].Value != 10_000 || paid[0].To != w.seller.Payee {
		t.Fatalf("paid %+v", paid)
	}
	a := result.Attempt
	if string(result.Response.Body) != "sold" || a == nil || a.State != StateSettled || a.Amount != 10_000 ||
		a.Transaction != paid[0].Transaction || a.Payee != w.seller.Payee.String() || a.Network != "eip155:8453" ||
		a.Capability != "http" || a.Operation != "buy" || a.Rail != RailX402Base {
		t.Errorf("%s for %+v", result.Response.Body, a)
	}
	found, err := w.wallets().Find(t.Context(), w.request("turn", "1-0"))
	if err != nil || found == nil || found.State != StateSettled || found.Transaction != a.Transaction {
		t.Errorf("the ledger has %+v, %v", found, err)
	}
}

func TestARequestThatCostsNothingIsNotPaid(t *testing.T) {
	w := newWorld(t)
	w.site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "free") })
	result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
	if err != nil || result.Attempt != nil || string(result.Response.Body) != "free" || len(w.chain.Paid()) != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestAHostileDemandIsRefused: the offer is the honest one, changed in one thing. Nothing is signed for it.
//
// Rules: PAY-01.
func TestAHostileDemandIsRefused(t *testing.T) {
	offer := func(key string, value any) func(map[string]any) {
		return func(required map[string]any) { required["accepts"].([]any)[0].(map[string]any)[key] = value }
	}
	top := func(key string, value any) func(map[string]any) {
		return func(required map[string]any) { required[key] = value }
	}
	resource := func(url string) func(map[string]any) { return top("resource", map[string]any{"url": url}) }
	for name, change := range map[string]func(map[string]any){
		"a price above the policy":      offer("amount", "50001"),
		"another payee":                 offer("payTo", "0x00000000000000000000000000000000deadbeef"),
		"the zero address":              offer("payTo", "0x0000000000000000000000000000000000000000"),
		"no address":                    offer("payTo", "merchant"),
		"another asset":                 offer("asset", "0x036CbD53842c5426634e7929541eC2318f3dCF7e"),
		"a currency":                    offer("asset", "USD"),
		"another network":               offer("network", "eip155:1"),
		"the network of version 1":      offer("network", "base"),
		"another scheme":                offer("scheme", "upto"),
		"permit2":                       offer("extra", map[string]any{"assetTransferMethod": "permit2"}),
		"another domain":                offer("extra", map[string]any{"name": "Other", "version": "2"}),
		"another version of the domain": offer("extra", map[string]any{"name": "USD Coin", "version": "1"}),
		"places":                        offer("amount", "0.01"),
		"an exponent":                   offer("amount", "1e4"),
		"a sign":                        offer("amount", "-10000"),
		"a plus":                        offer("amount", "+10000"),
		"a hexadecimal number":          offer("amount", "0x2710"),
		"leading zeros":                 offer("amount", "0010000"),
		"nothing":                       offer("amount", "0"),
		"an empty amount":               offer("amount", ""),
		"a number instead of a text":    offer("amount", 10000),
		"an amount beyond 64 bits":      offer("amount", "18446744073709561616"),
		"no time":                       offer("maxTimeoutSeconds", 0),
		"a negative time":               offer("maxTimeoutSeconds", -60),
		"a resource at another host":    resource("https://other.example/data"),
		"a resource at another path":    resource("https://HOST/other"),
		"a resource at another port":    resource("https://127.0.0.1:1/data"),
		"a resource with a user":        resource("https://user@HOST/data"),
		"a resource of another scheme":  resource("file://HOST/data"),
		"no resource":                   resource(""),
		"a resource that is a text":     top("resource", "https://HOST/data"),
		"version 1":                     top("x402Version", 1),
		"version 3":                     top("x402Version", 3),
		"no offers":                     top("accepts", []any{}),
		"offers of another kind":        top("accepts", []any{1, "x", nil, []any{}}),
		"too many offers":               top("accepts", make([]any, x402.MaxOffers+1)),
		"a header that is too long":     top("error", strings.Repeat("x", x402.MaxHeaderBytes)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.seller.Demand = func(_ int, required map[string]any) {
				terms := map[string]any(w.seller.Terms())
				required["accepts"] = []any{terms}
				change(required)
				if r, ok := required["resource"].(map[string]any); ok {
					r["url"] = strings.ReplaceAll(r["url"].(string), "HOST", w.site.Listener.Addr().String())
				}
			}
			r := w.request("turn", "1-0")
			r.Policy.Payees = []x402.Address{w.seller.Payee}
			result, err := w.wallets().Pay(t.Context(), r)
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != ReasonOffer || result.Attempt != nil {
				t.Errorf("%+v, %v", result, err)
			}
			if w.seller.Payments() != 0 || len(w.chain.Paid()) != 0 {
				t.Errorf("%d payments were sent", w.seller.Payments())
			}
		})
	}
}

func TestAHeaderThatCannotBeDecodedIsRefused(t *testing.T) {
	for name, values := range map[string][]string{
		"none": nil, "no base64": {"%%%"}, "no JSON": {"eA=="}, "two": {"e30=", "e30="},
		"deep": {strings.Repeat("W1tb", 3000)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			requests := 0
			w.site.Config.Handler = http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
				requests++
				to.Header()[x402.HeaderRequired] = values
				to.WriteHeader(http.StatusPaymentRequired)
			})
			_, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != ReasonOffer || requests != 1 {
				t.Errorf("%v after %d requests", err, requests)
			}
		})
	}
}

func TestTheCheapestPermittedOfferIsTaken(t *testing.T) {
	w := newWorld(t)
	w.seller.Demand = func(_ int, required map[string]any) {
		dear, other := w.seller.Terms(), w.seller.Terms()
		dear["amount"], other["network"], other["amount"] = "40000", "eip155:137", "1"
		required["accepts"] = []any{other, dear, map[string]any(w.seller.Terms()), dear}
	}
	if _, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0")); err != nil || w.chain.Sum() != 10_000 {
		t.Errorf("paid %d, %v", w.chain.Sum(), err)
	}
}

// TestAServerThatAsksAgainIsNotPaidAgain: whatever it asks for, and however the price changes.
//
// Rules: PAY-01.
func TestAServerThatAsksAgainIsNotPaidAgain(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"after it was paid": func(w *world) {
			w.seller.AfterSettlement = func(to http.ResponseWriter, _ *http.Request) bool {
				to.WriteHeader(http.StatusPaymentRequired)
				return true
			}
		},
		"because its price has changed": func(w *world) {
			w.seller.BeforeSettlement = func(http.ResponseWriter, *http.Request) bool {
				w.seller.Price *= 2
				return false
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			if err != nil || result.Response.Status != http.StatusPaymentRequired || w.seller.Payments() != 1 ||
				len(w.chain.Paid()) > 1 || result.Attempt.State != StateUnconfirmed {
				t.Fatalf("%+v, %v; %d payments, paid %v", result.Attempt, err, w.seller.Payments(), w.chain.Paid())
			}
			// The call again, as after a crash.
			result, err = w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != ReasonSpent || result.Attempt == nil || w.seller.Payments() != 1 {
				t.Errorf("%+v, %v; %d payments", result.Attempt, err, w.seller.Payments())
			}
			if spent := w.spent(); spent != 10_000 {
				t.Errorf("%d counts", spent)
			}
		})
	}
}

// spent is what counts in the ledger of the wallet.
func (w *world) spent() Amount {
	w.t.Helper()
	var d day
	l := w.wallets().ledger(w.request("turn", "1-0"))
	l.wallet = walletScope
	x, err := w.store.List(w.t.Context(), l.wallet)
	if err == nil {
		err = l.load(w.t.Context(), l.wallet, x, dayKey, &d)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d.total()
}

// TestNothingIsPaidAfterARedirect: not where it leads, and not to the first server.
//
// Rules: PAY-01.
func TestNothingIsPaidAfterARedirect(t *testing.T) {
	for name, target := range map[string]string{
		"to another path": "/elsewhere", "to another host": "https://localhost:PORT/data",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, port, _ := strings.Cut(w.site.Listener.Addr().String(), ":")
			once := sync.Once{}
			w.site.Config.Handler = http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
				redirected := false
				once.Do(func() {
					http.Redirect(to, r, strings.ReplaceAll(target, "PORT", port), http.StatusTemporaryRedirect)
					redirected = true
				})
				if !redirected {
					w.seller.ServeHTTP(to, r)
				}
			})
			result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			if err == nil || result.Attempt != nil || w.seller.Payments() != 0 {
				t.Errorf("%+v, %v", result, err)
			}
		})
	}
}

func TestAPaymentIsNotRedirectedToAnotherHost(t *testing.T) {
	w := newWorld(t)
	other := newWorld(t)
	w.seller.BeforeSettlement = func(to http.ResponseWriter, r *http.Request) bool {
		http.Redirect(to, r, other.site.URL+"/data", http.StatusTemporaryRedirect)
		return true
	}
	result, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
	var e *egress.Error
	if !errors.As(err, &e) || e.Reason != egress.ReasonRedirect || other.site.Requests() != 0 || result.Attempt == nil ||
		!result.Attempt.Counts() {
		t.Errorf("%+v, %v", result.Attempt, err)
	}
}

// TestOnlyAWalletForTheHostPays.
//
// Rules: PAY-01.
func TestOnlyAWalletForTheHostPays(t *testing.T) {
	for name, change := range map[string]func(*world){
		"no wallet":            func(w *world) { delete(w.secret.Annotations, v1alpha1.AnnotationWalletMaxPerDay) },
		"no amount":            func(w *world) { w.secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay] = "lots" },
		"no hosts":             func(w *world) { delete(w.secret.Annotations, v1alpha1.AnnotationAllowedHosts) },
		"an empty list":        func(w *world) { w.secret.Annotations[v1alpha1.AnnotationAllowedHosts] = "" },
		"other hosts":          func(w *world) { w.secret.Annotations[v1alpha1.AnnotationAllowedHosts] = "example.com" },
		"a key that is no key": func(w *world) { w.secret.Data["key"] = []byte("hidden-value") },
		"no key":               func(w *world) { w.secret.Data["key"] = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(w)
			_, err := w.wallets().Pay(t.Context(), w.request("turn", "1-0"))
			var refusal *Refusal
			if !errors.As(err, &refusal) || refusal.Reason != ReasonWallet || strings.Contains(err.Error(), "hidden-value") ||
				w.seller.Payments() != 0 {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLimitsHold: the chain counts what is paid.
//
// Rules: PAY-01.
func TestLimitsHold(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		perDay string
		turn   func(i int) string
		paid   int64
	}{
		"a Turn": {
			policy: Policy{MaxPayment: 10_000, MaxTurn: 39_999}, perDay: "9", paid: 30_000,
			turn: func(int) string { return "turn" },
		},
		"a Session": {
			policy: Policy{MaxPayment: 10_000, MaxTurn: 10_000, MaxSession: 50_000}, perDay: "9", paid: 50_000,
			turn: func(i int) string { return fmt.Sprint("turn-", i) },
		},
		"a day": {
			policy: Policy{MaxPayment: 10_000}, perDay: "0.07", paid: 70_000,
			turn: func(i int) string { return fmt.Sprint("turn-", i) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay] = c.perDay
			for i := range 12 {
				r := w.request(c.turn(i), fmt.Sprint("1-", i))
				r.Policy, r.Cause.Step = c.policy, int64(i+1)
				r.Policy.Network = x402.Base
				_, err := w.wallets().Pay(t.Context(), r)
				var refusal *Refusal
				if err != nil && (!errors.As(err, &refusal) || refusal.Reason != ReasonLimit) {
					t.Fatal(err)
				}
			}
			if w.chain.Sum() != c.paid || w.spent() != Amount(c.paid) {
				t.Errorf("paid %d, and %d counts; want %d", w.chain.Sum(), w.spent(), c.paid)
			}
		})
	}
}

func TestTheDayOfAWalletEndsAtMidnightAndNeverBeginsTwice(t *testing.T) {
	w := newWorld(t)
	w.secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay] = "0.01"
	pay := func(n int) error {
		r := w.request(fmt.Sprint("turn-", n), "1-0")
		r.Cause.Step = int64(n)
		_, err := w.wallets().Pay(t.Context(), r)
		return err
	}
	for n, c := range []struct {
		pass time.Duration
		ok   bool
	}{{0, true}, {0, false}, {12 * time.Hour, true}, {-2 * time.Hour, false}, {3 * time.Hour, false}} {
		w.pass(c.pass)
		if err := pay(n + 1); (err == nil) != c.ok {
			t.Errorf("payment %d: %v", n+1, err)
		}
	}
}

// TestManyAtOnceStayBelowTheLimits: 60 calls of 20 Sessions, each in a process of its own.
//
// Rules: PAY-01.
func TestManyAtOnceStayBelowTheLimits(t *testing.T) {
	w := newWorld(t)
	w.secret.Annotations[v1alpha1.AnnotationWalletMaxPerDay] = "0.25"
	var group sync.WaitGroup
	for i := range 60 {
		group.Go(func() {
			r := w.request(fmt.Sprint("turn-", i%20), fmt.Sprint("1-", i))
			r.Session, r.SessionUID = fmt.Sprint("demo-", i%20), r.Turn
			r.Policy.MaxTurn = 20_000
			_, err := w.wallets().Pay(t.Context(), r)
			var refusal *Refusal
			if err != nil && (!errors.As(err, &refusal) || refusal.Reason != ReasonLimit) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if w.chain.Sum() != 250_000 || w.spent() != 250_000 {
		t.Errorf("paid %d, and %d counts; want 250000", w.chain.Sum(), w.spent())
	}
}
