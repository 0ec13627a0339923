package payment

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/testing/site"
	double "github.com/capstan-dev/capstan/internal/testing/x402"
)

// privateKey is that of the example of EIP-712. It is public, and its account worthless.
const privateKey = "c85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"

// world is a seller, a chain, a wallet and the ledgers, which outlive processes.
type world struct {
	t      *testing.T
	mu     sync.Mutex
	now    time.Time
	chain  *double.Chain
	seller *double.Seller
	site   *site.Site
	secret *corev1.Secret
	store  record.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)}
	w.chain = double.NewChain(x402.Base, w.clock)
	w.seller = &double.Seller{Chain: w.chain, Price: 10_000, Payee: address("0x209693bc6afc0c5328ba36faf03c514ef312287c")}
	w.site = site.New(t, w.seller.ServeHTTP)
	w.chain.Fund(address("0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"), 1_000_000_000)
	w.secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "wallet", UID: "wallet-uid", Annotations: map[string]string{
				v1alpha1.AnnotationWalletMaxPerDay: "1.00",
				v1alpha1.AnnotationAllowedHosts:    w.site.Listener.Addr().String(),
			},
		},
		Data: map[string][]byte{"key": []byte(privateKey)},
	}
	w.store = record.New(memory.New(), record.Options{Clock: w.clock})
	return w
}

func address(text string) x402.Address {
	a, err := x402.ParseAddress(text)
	if err != nil {
		panic(err)
	}
	return a
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// wallets is a new process.
func (w *world) wallets() *Wallets {
	return &Wallets{
		Egress: w.site.Egress(), Clock: w.clock, Records: w.store,
		Secrets: func(context.Context, string, string) (*corev1.Secret, error) {
			same := *w.secret
			same.Data = map[string][]byte{"key": []byte(string(w.secret.Data["key"]))}
			same.Annotations = maps.Clone(w.secret.Annotations)
			return &same, nil
		},
	}
}

// request is that of a call of a Turn in a Session.
func (w *world) request(turn, call string) Request {
	return Request{
		Capability: "http", Operation: "buy", Rail: RailX402Base,
		HTTP: egress.Request{
			Method: http.MethodPost, URL: w.site.URL + "/data", Body: []byte(`{"city":"Bern"}`), Header: http.Header{},
			MaxBody: 64 << 10, Timeout: 10 * time.Second,
		},
		Policy:    Policy{MaxPayment: 50_000, Network: x402.Base},
		Wallet:    v1alpha1.SecretKeyReference{Name: "wallet", Key: "key"},
		Namespace: "default", Session: "demo", SessionUID: "session-uid", Turn: types.UID(turn), Call: call,
		Cause: record.Cause{Step: 1, Key: turn + "/" + call},
	}
}

// faulty is a Sender that acts around the request with the payment.
type faulty struct {
	Sender
	before func() error
	after  func() error
}

func (f *faulty) Do(ctx context.Context, r egress.Request) (*egress.Response, error) {
	if r.Secret.Get(x402.HeaderSignature) == "" {
		return f.Sender.Do(ctx, r)
	}
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, err
		}
	}
	response, err := f.Sender.Do(ctx, r)
	if err == nil && f.after != nil {
		err = f.after()
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}
