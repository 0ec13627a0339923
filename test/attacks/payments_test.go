package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/payment"
	"github.com/capstan-dev/capstan/internal/runtime/payment/x402"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/testing/site"
	double "github.com/capstan-dev/capstan/internal/testing/x402"
)

// walletKey is that of the example of EIP-712. It is public, and its account worthless.
const walletKey = "c85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"

// market is a seller whom the other tenant pays, a hostile one, and the wallets of both tenants.
type market struct {
	seller  *double.Seller
	chain   *double.Chain
	site    *site.Site
	hostile *site.Site
	secrets map[string]*corev1.Secret
	records record.Store
	calls   atomic.Int64
	// demand changes what the hostile seller asks for.
	demand func(required map[string]any)
	// honest counts what the other tenant has bought.
	honest atomic.Int64
}

func newMarket(t *testing.T) *market {
	m := &market{secrets: map[string]*corev1.Secret{}, records: record.New(memory.New(), record.Options{})}
	m.chain = double.NewChain(x402.Base, time.Now)
	payee, err := x402.ParseAddress("0x209693bc6afc0c5328ba36faf03c514ef312287c")
	must(t, err)
	payer, err := x402.ParseAddress("0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826")
	must(t, err)
	m.chain.Fund(payer, 1_000_000_000)
	m.seller = &double.Seller{Chain: m.chain, Price: 10_000, Payee: payee}
	m.site = site.New(t, m.seller.ServeHTTP)
	hostile := &double.Seller{Chain: m.chain, Price: 10_000, Payee: payee}
	hostile.Demand = func(_ int, required map[string]any) {
		required["accepts"] = []any{map[string]any(hostile.Terms())}
		m.demand(required)
	}
	m.hostile = site.New(t, hostile.ServeHTTP)
	own := map[string]string{
		v1alpha1.AnnotationWalletMaxPerDay: "5.00", v1alpha1.AnnotationAllowedHosts: m.site.Listener.Addr().String(),
	}
	m.add(bystander, "wallet", walletKey, own)
	m.add(attacker, "bound", walletKey, map[string]string{
		v1alpha1.AnnotationWalletMaxPerDay: "5.00", v1alpha1.AnnotationAllowedHosts: "other.example",
	})
	m.add(attacker, "unlimited", walletKey, map[string]string{
		v1alpha1.AnnotationAllowedHosts: m.site.Listener.Addr().String(),
	})
	m.add(attacker, "small", walletKey, map[string]string{
		v1alpha1.AnnotationWalletMaxPerDay: "0.001", v1alpha1.AnnotationAllowedHosts: own[v1alpha1.AnnotationAllowedHosts],
	})
	m.add(attacker, "negative", walletKey, map[string]string{
		v1alpha1.AnnotationWalletMaxPerDay: "-1", v1alpha1.AnnotationAllowedHosts: own[v1alpha1.AnnotationAllowedHosts],
	})
	m.add(attacker, "mine", walletKey, map[string]string{
		v1alpha1.AnnotationWalletMaxPerDay: "5.00",
		v1alpha1.AnnotationAllowedHosts:    m.site.Listener.Addr().String() + "," + m.hostile.Listener.Addr().String(),
	})
	return m
}

func (m *market) add(namespace, name, key string, annotations map[string]string) {
	m.secrets[namespace+"/"+name] = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(namespace + name), Annotations: annotations,
		},
		Data: map[string][]byte{"key": []byte(key), "token": []byte(tokenSecret)},
	}
}

// pay is a call of a Tool that pays from a wallet.
func (m *market) pay(ctx context.Context, namespace, wallet, key string, change func(*payment.Request)) string {
	wallets := &payment.Wallets{
		Egress: m.site.Egress(), Clock: time.Now, Records: m.records,
		Secrets: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
			if s := m.secrets[namespace+"/"+name]; s != nil {
				return s.DeepCopy(), nil
			}
			return nil, site.NotFound(name)
		},
	}
	call := fmt.Sprintf("%d-0", m.calls.Add(1))
	r := payment.Request{
		Capability: "http", Operation: "buy", Rail: payment.RailX402Base,
		HTTP: egress.Request{
			Method: http.MethodGet, URL: m.site.URL + "/data", Header: http.Header{}, MaxBody: 64 << 10, Timeout: fetchTimeout,
		},
		Policy:    payment.Policy{MaxPayment: 50_000, Network: x402.Base, Payees: []x402.Address{m.seller.Payee}},
		Wallet:    v1alpha1.SecretKeyReference{Name: wallet, Key: key},
		Namespace: namespace, Session: "s", SessionUID: types.UID("uid-" + namespace), Turn: "turn", Call: call,
		Cause: record.Cause{Step: 1, Key: "turn/" + call},
	}
	if change != nil {
		change(&r)
	}
	result, err := wallets.Pay(ctx, r)
	if err != nil {
		return shown("", err)
	}
	return fmt.Sprintf("%s %s", result.Response.Body, result.Attempt.State)
}

// payments are attempts to pay from the wallet of another tenant, or more than its owner permits.
func payments(t *testing.T) subject {
	m := newMarket(t)
	from := func(name, want, wallet, key string, change func(*payment.Request)) attempt {
		return attempt{name: name, want: want, run: func(ctx context.Context) string {
			return m.pay(ctx, attacker, wallet, key, change)
		}}
	}
	return subject{
		name: "Payments",
		classes: []class{
			{name: "a wallet of another tenant", refused: true, attempts: []attempt{
				from("by its name", "cannot be read", "wallet", "key", nil),
				from("by a path", "cannot be read", "../"+bystander+"/wallet", "key", nil),
				from("by its namespace", "cannot be read", bystander+"/wallet", "key", nil),
				from("by another key of a wallet", "is not a private key", "mine", "token", nil),
			}},
			{name: "more than the owner of the wallet permits", refused: true, attempts: []attempt{
				from("at another host", "is not one of them", "bound", "key", nil),
				from("without a limit of the day", "is not a wallet", "unlimited", "key", nil),
				from("above the limit of the day", "", "small", "key", nil),
				from("with a negative limit", "is not a wallet", "negative", "key", nil),
				from("to another payee", "", "mine", "key", func(r *payment.Request) {
					r.Policy.Payees = []x402.Address{r.Policy.Network.Asset}
				}),
			}},
			m.demands(),
		},
		other: func(ctx context.Context) error {
			m.honest.Add(1)
			seen := m.pay(ctx, bystander, "wallet", "key", nil)
			if !strings.Contains(seen, string(payment.StateSettled)) {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			if paid, honest := len(m.chain.Paid()), int(m.honest.Load()); paid != honest {
				t.Errorf("%d payments were made, of which %d are those of the other tenant", paid, honest)
			}
		},
	}
}

// demands are those of the hostile seller, to which the Tool of the attacker pays.
func (m *market) demands() class {
	offer := func(key string, value any) func(map[string]any) {
		return func(required map[string]any) { required["accepts"].([]any)[0].(map[string]any)[key] = value }
	}
	all := class{name: "what a hostile seller demands", refused: true}
	for _, a := range []struct {
		name   string
		change func(required map[string]any)
	}{
		{"more than the Tool pays", offer("amount", "50001")},
		{"an amount below zero", offer("amount", "-10000")},
		{"an amount beyond 64 bits", offer("amount", "18446744073709561616")},
		{"another contract", offer("asset", "0x00000000000000000000000000000000deadbeef")},
		{"a payment for another resource", func(required map[string]any) {
			required["resource"] = map[string]any{"url": m.site.URL + "/data"}
		}},
	} {
		all.attempts = append(all.attempts, attempt{name: a.name, run: func(ctx context.Context) string {
			m.demand = a.change
			return m.pay(ctx, attacker, "mine", "key", func(r *payment.Request) { r.HTTP.URL = m.hostile.URL + "/data" })
		}})
	}
	return all
}
