package step

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

var secrets = schema.GroupResource{Resource: "secrets"}

// apiKey is the Secret that the tests' Models name.
func apiKey(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api"},
		Data:       map[string][]byte{"key": []byte(value)},
	}
}

// keyed is a Config whose Model is at the site and needs a key.
func keyed(s *site) turnstate.Config {
	c := with()
	c.Model.Spec.BaseURL = s.URL + "/v1"
	c.Model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}
	return c
}

// reads lets the process read one Secret; err is what it gets instead.
func (b *bench) reads(secret *corev1.Secret, err error) *int {
	asked := new(int)
	b.Secrets = func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		*asked++
		if namespace != "ns" || name != "api" {
			b.t.Errorf("Secret %s/%s was asked for", namespace, name)
		}
		return secret, err
	}
	return asked
}

// using makes drivers that are shown how they reach their provider.
func (b *bench) using(use func(model.Access)) {
	b.Models["Test"] = func(_ *v1alpha1.Model, access model.Access) (model.Driver, error) {
		use(access)
		return b, nil
	}
}

func TestTheKeyIsReadAtEveryCallAndTheClientReachesTheProviderOnly(t *testing.T) {
	s, other := newSite(t, fine), newSite(t, fine)
	b := newBench(t).reaching(s)
	asked := b.reads(apiKey("sk-1\r\n"), nil)
	var keys []string
	b.using(func(a model.Access) {
		keys = append(keys, a.Key)
		answer, err := a.HTTP.Get(s.URL + "/v1/messages")
		if err != nil {
			t.Errorf("reaching the provider: %v", err)
			return
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "fine" {
			t.Errorf("the provider says %q, %v", body, err)
		}
		if answer, err := a.HTTP.Get(other.URL); err == nil {
			answer.Body.Close()
			t.Error("another host was reached")
		}
	})
	b.failing(unavailable())
	b.pausing()
	b.reason(newTurn("demo-1"), keyed(s))
	if len(keys) != 2 || keys[0] != "sk-1" || *asked != 2 || other.asked != 0 {
		t.Errorf("keys %v, the Secret was read %d times, another host was asked %d times", keys, *asked, other.asked)
	}
}

func TestWithoutAKeyNothingIsSentAndTheTurnWaitsAndSaysWhatToDo(t *testing.T) {
	bound := func(hosts string) *corev1.Secret {
		secret := apiKey("sk-hidden")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: hosts}
		return secret
	}
	for name, test := range map[string]struct {
		secret *corev1.Secret
		err    error
		reason string
		says   string
	}{
		"no Secret": {
			nil, apierrors.NewNotFound(secrets, "api"), v1alpha1.ReasonSecretMissing,
			`Secret "api" does not exist. Create it: kubectl create secret generic api --namespace ns ` +
				`--from-literal=key=YOUR_API_KEY`,
		},
		"not allowed": {
			nil, apierrors.NewForbidden(secrets, "api", errors.New("no role")), v1alpha1.ReasonRoleMissing,
			`The manager has no permission to read Secret "api". Grant it: kubectl create rolebinding capstan-manager-secrets ` +
				`--namespace ns ` +
				`--clusterrole=capstan-manager-secrets --serviceaccount=capstan-system:capstan-manager`,
		},
		"no key": {
			&corev1.Secret{Data: map[string][]byte{"other": []byte("sk-hidden")}}, nil, v1alpha1.ReasonSecretKeyMissing,
			`Secret "api" has no key "key". Add it: kubectl patch secret api --namespace ns --type merge --patch ` +
				`'{"stringData":{"key":"YOUR_API_KEY"}}'`,
		},
		"an empty key": {apiKey("\n"), nil, v1alpha1.ReasonSecretUnusable, "is not a valid API key"},
		"two lines":    {apiKey("sk-hidden\nsk-hidden"), nil, v1alpha1.ReasonSecretUnusable, "is not a valid API key"},
		"a space":      {apiKey("Bearer sk-hidden"), nil, v1alpha1.ReasonSecretUnusable, "is not a valid API key"},
		"a long text": {
			apiKey(strings.Repeat("hidden", 1000)), nil, v1alpha1.ReasonSecretUnusable, "is not a valid API key",
		},
		"not ASCII": {apiKey("sk-hiddenä"), nil, v1alpha1.ReasonSecretUnusable, "is not a valid API key"},
		"another host": {
			bound("api.example.org"), nil, v1alpha1.ReasonSecretUnusable, "is bound to hosts by capstan.dev/allowed-hosts",
		},
		"another port":   {bound("127.0.0.1"), nil, v1alpha1.ReasonSecretUnusable, "is bound to hosts"},
		"no host at all": {bound(""), nil, v1alpha1.ReasonSecretUnusable, "is bound to hosts"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, fine)
			b := newBench(t).reaching(s)
			b.reads(test.secret, test.err)
			b.using(func(model.Access) { t.Error("a driver was made") })
			var told []types.NamespacedName
			b.OnNoKey = func(m types.NamespacedName) { told = append(told, m) }
			c := keyed(s)
			closed, err := b.Reason(t.Context(), newTurn("demo-1"), c)
			var keyless *turnstate.MissingKey
			if !errors.As(err, &keyless) || closed != nil {
				t.Fatalf("closed %+v, error %v, want to wait", closed, err)
			}
			if keyless.Model != "m" || keyless.Reason != test.reason || !strings.Contains(keyless.Problem, test.says) ||
				strings.Contains(keyless.Error(), "hidden") {
				t.Errorf("waits for %+v, want %s and %q", keyless, test.reason, test.says)
			}
			if len(told) != 1 || told[0] != (types.NamespacedName{Namespace: "ns", Name: "m"}) {
				t.Errorf("of no key were told %v", told)
			}
			if len(b.transcript()) != 0 || s.asked != 0 {
				t.Errorf("the journal has %d messages, the provider was asked %d times", len(b.transcript()), s.asked)
			}

			// The condition of the Model says the same, and has the Turn wait before anything is tried.
			c.Model.Namespace = "ns"
			reason, message := model.Readiness(b.CheckKey(t.Context(), c.Model))
			condition.SetReady(&c.Model.Status.Conditions, 1, metav1.NewTime(started), reason, message)
			if known := turnstate.FindMissingKey(c); known == nil || *known != *keyless {
				t.Errorf("by the condition the Turn waits for %+v, by the call for %+v", known, keyless)
			}
			var p v1alpha1.TurnProgress
			keyless.Describe(&p)
			if !keyless.Described(&p) || !turnstate.WaitsForReference(&p) || p.WaitsFor[0].Reason != test.reason {
				t.Errorf("the status is %+v", p)
			}
			turnstate.Resume(&p)
			if turnstate.WaitsForReference(&p) || p.Phase != v1alpha1.TurnPhaseReason || len(p.WaitsFor) != 0 {
				t.Errorf("the status of a Turn that goes on is %+v", p)
			}
		})
	}
}

func TestAFallbackAnswersForAModelWithoutAKeyAndHoldsNothingUpWithoutItsOwn(t *testing.T) {
	s := newSite(t, fine)
	other := func() *v1alpha1.Model {
		m := with().Model
		m.Name = "other"
		return m
	}
	missing := apierrors.NewNotFound(secrets, "api")
	t.Run("the first has none", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		c := keyed(s)
		c.Fallbacks = []*v1alpha1.Model{other()}
		if turn, _ := b.reason(newTurn("demo-1"), c); turn.Progress.Error != nil || turn.Progress.Model != "other" {
			t.Errorf("error %+v, answered by %q", turn.Progress.Error, turn.Progress.Model)
		}
	})
	t.Run("the fallback has none", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		b.failing(provider.StatusError("Test", "other", 401, 0, ""))
		c := keyed(s)
		c.Model, c.Fallbacks = other(), []*v1alpha1.Model{c.Model}
		turn, closed := b.reason(newTurn("demo-1"), c)
		if e := turn.Progress.Error; e == nil || e.Fields["model_id"] == "m" || turn.Progress.Model != "" {
			t.Errorf("error %+v, want that of the first Model; answered by %q", e, turn.Progress.Model)
		}
		if all := generations(t, closed); len(all) != 2 {
			t.Errorf("the journal reports %+v", all)
		}
	})
	t.Run("none has one", func(t *testing.T) {
		b := newBench(t).reaching(s)
		b.reads(nil, missing)
		c := keyed(s)
		fallback := c.Model.DeepCopy()
		fallback.Name = "second"
		c.Fallbacks = []*v1alpha1.Model{fallback}
		var keyless *turnstate.MissingKey
		if _, err := b.Reason(t.Context(), newTurn("demo-1"), c); !errors.As(err, &keyless) || keyless.Model != "m" {
			t.Errorf("got %v, want to wait for the key of the first", err)
		}
	})
}

func TestTheStatusNamesTheModelThatAnsweredAndTheOneThatWasNotFound(t *testing.T) {
	b := newBench(t)
	c := with()
	c.ModelNotFound = "gone"
	turn, _ := b.reason(newTurn("demo-1"), c)
	if turn.Progress.Model != "m" || turn.Progress.ModelNotFound != "gone" {
		t.Errorf("model %q, modelNotFound %q", turn.Progress.Model, turn.Progress.ModelNotFound)
	}
}

func TestASecretThatIsBoundToTheProviderIsSentThere(t *testing.T) {
	s := newSite(t, fine)
	b := newBench(t).reaching(s)
	secret := apiKey("sk-1")
	secret.Annotations = map[string]string{
		v1alpha1.AnnotationAllowedHosts: "api.example.org, " + strings.TrimPrefix(s.URL, "https://"),
	}
	b.reads(secret, nil)
	made := 0
	b.using(func(model.Access) { made++ })
	if turn, _ := b.reason(newTurn("demo-1"), keyed(s)); turn.Progress.Error != nil || made != 1 {
		t.Errorf("%d drivers were made, error %+v", made, turn.Progress.Error)
	}
}

func TestWhenTheSecretCannotBeReadNowNothingIsDecided(t *testing.T) {
	b := newBench(t).reaching(newSite(t, fine))
	b.reads(nil, apierrors.NewTooManyRequestsError("later"))
	if closed, err := b.Reason(
		t.Context(),
		newTurn("demo-1"),
		keyed(newSite(t, fine)),
	); err == nil || closed != nil ||
		!strings.Contains(err.Error(), "Secret api") {
		t.Errorf("closed %+v, error %v", closed, err)
	}
	if len(b.transcript()) != 0 || len(b.asked) != 0 {
		t.Errorf("asked %d times, the log has %d messages", len(b.asked), len(b.transcript()))
	}
}

func TestAModelWithoutASecretNeedsNone(t *testing.T) {
	b := newBench(t)
	b.using(func(a model.Access) {
		if a != (model.Access{}) {
			t.Errorf("the driver gets %+v", a)
		}
	})
	if turn, _ := b.reason(newTurn("demo-1"), with()); turn.Progress.Error != nil {
		t.Errorf("error %+v", turn.Progress.Error)
	}
}

func TestAnAddressThatIsNoneIsNoModel(t *testing.T) {
	for _, address := range []string{"", "https://[", "somewhere"} {
		b := newBench(t).reaching(newSite(t, func(http.ResponseWriter, *http.Request) {}))
		asked := b.reads(apiKey("sk-1"), nil)
		c := keyed(newSite(t, fine))
		c.Model.Spec.BaseURL = address
		turn, _ := b.reason(newTurn("demo-1"), c)
		if e := turn.Progress.Error; e == nil || e.Code != "model_unavailable" || *asked != 0 {
			t.Errorf("%q: error %+v, the Secret was read %d times", address, e, *asked)
		}
	}
}
