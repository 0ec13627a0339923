package modelcall

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

var secrets = schema.GroupResource{Resource: "secrets"}

// apiKey is the Secret that the tests' Models name.
func apiKey(value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "api"},
		Data:       map[string][]byte{"key": []byte(value)},
	}
}

// keyed is a Model at the site that needs a key.
func keyed(s *site.Site) *v1alpha1.Model {
	m := named("m")
	m.Namespace = "ns"
	m.Spec.BaseURL = s.URL + "/v1"
	m.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}
	return m
}

// reaching gives a bench a client that reaches a site on this machine, and no Secrets.
func (b *bench) reaching(s *site.Site) *bench {
	b.Egress, b.Secrets = s.Egress(), site.NoSecrets
	return b
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

// Rules: MODEL-01.
func TestTheKeyIsReadAtEveryCallAndTheClientReachesTheProviderOnly(t *testing.T) {
	s, other := site.New(t, site.Fine), site.New(t, site.Fine)
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
			t.Errorf("the provider returned %q, %v", body, err)
		}
		if answer, err := a.HTTP.Get(other.URL); err == nil {
			answer.Body.Close()
			t.Error("another host was reached")
		}
	})
	b.failing(unavailable())
	b.result(keyed(s))
	if len(keys) != 2 || keys[0] != "sk-1" || *asked != 2 || other.Requests() != 0 {
		t.Errorf("keys %v, the Secret was read %d times, another host was asked %d times", keys, *asked, other.Requests())
	}
}

func TestWithoutAKeyNothingIsSentAndTheErrorStatesWhatToDo(t *testing.T) {
	bound := func(hosts string) *corev1.Secret {
		secret := apiKey("sk-hidden")
		secret.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: hosts}
		return secret
	}
	for name, test := range map[string]struct {
		secret  *corev1.Secret
		err     error
		reason  string
		problem string
	}{
		"no Secret": {
			nil, site.NotFound("api"), v1alpha1.ReasonSecretMissing,
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
			s := site.New(t, site.Fine)
			b := newBench(t).reaching(s)
			b.reads(test.secret, test.err)
			b.using(func(model.Access) { t.Error("a driver was made") })
			var reported []types.NamespacedName
			b.OnNoKey = func(m types.NamespacedName) { reported = append(reported, m) }
			m := keyed(s)
			all, err := b.call(request(nil, m))
			var keyless *model.KeyError
			if !errors.As(err, &keyless) || all != nil {
				t.Fatalf("the results are %+v, error %v, want that of the key", all, err)
			}
			if keyless.Model != "m" || keyless.Reason != test.reason || !strings.Contains(keyless.Problem, test.problem) ||
				strings.Contains(keyless.Error(), "hidden") {
				t.Errorf("the error is %+v, want %s and %q", keyless, test.reason, test.problem)
			}
			if len(reported) != 1 || reported[0] != (types.NamespacedName{Namespace: "ns", Name: "m"}) {
				t.Errorf("missing keys were reported for %v", reported)
			}
			if s.Requests() != 0 {
				t.Errorf("the provider was called %d times", s.Requests())
			}

			// A check that sends nothing returns the same.
			var known *model.KeyError
			if err := b.CheckKey(t.Context(), m); !errors.As(err, &known) || *known != *keyless {
				t.Errorf("by the check the Model lacks %+v, by the call %+v", known, keyless)
			}
		})
	}
}

func TestAKeyIsMissingOnlyWhereNoModelHasOne(t *testing.T) {
	s := site.New(t, site.Fine)
	for name, test := range map[string]struct {
		models []*v1alpha1.Model
		called int
	}{
		"the first has none":    {[]*v1alpha1.Model{keyed(s), named("other")}, 2},
		"the fallback has none": {[]*v1alpha1.Model{named("other"), keyed(s)}, 2},
		"none has one":          {[]*v1alpha1.Model{keyed(s), keyed(s)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t).reaching(s)
			b.failing(provider.StatusError("Test", "other", 401, 0, ""))
			all, err := b.call(request(nil, test.models...))
			var keyless *model.KeyError
			if errors.As(err, &keyless) != (test.called == 0) || len(all) != test.called {
				t.Errorf("%d Models were called, error %v", len(all), err)
			}
		})
	}
}

func TestASecretThatIsBoundToTheProviderIsSentThere(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	secret := apiKey("sk-1")
	secret.Annotations = map[string]string{
		v1alpha1.AnnotationAllowedHosts: "api.example.org, " + strings.TrimPrefix(s.URL, "https://"),
	}
	b.reads(secret, nil)
	made := 0
	b.using(func(model.Access) { made++ })
	if got := b.result(keyed(s)); got.Err != nil || made != 1 {
		t.Errorf("%d drivers were made, error %v", made, got.Err)
	}
}

func TestWhenTheSecretCannotBeReadNothingIsDecided(t *testing.T) {
	s := site.New(t, site.Fine)
	b := newBench(t).reaching(s)
	b.reads(nil, apierrors.NewTooManyRequestsError("later"))
	all, err := b.call(request(nil, keyed(s), named("other")))
	if err == nil || all != nil || !strings.Contains(err.Error(), "Secret api") || len(b.requests) != 0 {
		t.Errorf("called %d times, the results are %+v, error %v", len(b.requests), all, err)
	}
}

func TestAModelWithoutASecretNeedsNone(t *testing.T) {
	b := newBench(t)
	b.using(func(a model.Access) {
		if a != (model.Access{}) {
			t.Errorf("the driver gets %+v", a)
		}
	})
	if got := b.result(named("m")); got.Err != nil {
		t.Errorf("error %v", got.Err)
	}
}

func TestAModelWithAnInvalidAddressIsNotReady(t *testing.T) {
	for _, address := range []string{"", "https://[", "somewhere"} {
		b := newBench(t).reaching(site.New(t, site.Fine))
		asked := b.reads(apiKey("sk-1"), nil)
		m := keyed(site.New(t, site.Fine))
		m.Spec.BaseURL = address
		if got := b.result(m).Failure(); got.Code != v1alpha1.ErrorCodeModelUnavailable || *asked != 0 {
			t.Errorf("%q: failure %+v, the Secret was read %d times", address, got, *asked)
		}
	}
}
