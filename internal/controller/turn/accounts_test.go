package turn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

const accountName = "capstan-tool"

// watchAccounts counts requests for ServiceAccounts, and makes the API server refuse them while refused returns an
// error.
func watchAccounts(w *world, refused func() error) *int {
	asked := new(int)
	w.hooks.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if _, ok := o.(*corev1.ServiceAccount); ok {
			*asked++
			if err := refused(); err != nil {
				return err
			}
		}
		return c.Create(ctx, o, options...)
	}
	return asked
}

func accepted() error { return nil }

// noRoom is the API server's error if a quota of the namespace allows no further ServiceAccount.
func noRoom() error {
	return apierrors.NewForbidden(
		schema.GroupResource{Resource: "serviceaccounts"},
		accountName,
		errors.New(
			"exceeded quota: small, requested: count/serviceaccounts=1, used: count/serviceaccounts=1, limited: "+
				"count/serviceaccounts=1",
		),
	)
}

func (w *world) account() *corev1.ServiceAccount {
	w.t.Helper()
	account := &corev1.ServiceAccount{}
	if err := w.client.Get(
		w.t.Context(),
		types.NamespacedName{Namespace: testNamespace, Name: accountName},
		account,
	); err != nil {
		w.t.Fatal(err)
	}
	return account
}

func TestTheAccountOfToolPodsIsMadeOnceBeforeTheFirstJob(t *testing.T) {
	w := newWorld(t)
	asked := watchAccounts(w, accepted)
	w.begin(
		builder.JobTool("look", v1alpha1.SideEffectPure).Obj(),
		builder.JobTool("read", v1alpha1.SideEffectAtMostOnce).Obj(),
	)
	m := w.manager(0)
	m.until("the end", w.finished)
	if *asked != 1 {
		t.Errorf("the ServiceAccount was requested %d times, want once", *asked)
	}
	account := w.account()
	if automount := account.AutomountServiceAccountToken; automount == nil || *automount {
		t.Error("pods of the account get a token")
	}
	if account.Labels["app.kubernetes.io/managed-by"] != "capstan" || len(account.OwnerReferences) > 0 {
		t.Errorf("its metadata is %+v", account.ObjectMeta)
	}
	jobs := w.jobs()
	if len(jobs) != 2 {
		t.Fatalf("there are %d Jobs", len(jobs))
	}
	for _, job := range jobs {
		if got := job.Spec.Template.Spec.ServiceAccountName; got != accountName {
			t.Errorf("the pod of a Job runs as %q", got)
		}
	}
}

func TestWorkersThatNeedAnAccountAtOnceShareARequest(t *testing.T) {
	w := newWorld(t)
	var asked atomic.Int32
	entered, release := make(chan struct{}, 16), make(chan struct{})
	w.hooks.Create = func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		asked.Add(1)
		entered <- struct{}{}
		<-release
		return c.Create(ctx, o, options...)
	}
	m := w.manager(0)
	var workers sync.WaitGroup
	for range 16 {
		workers.Go(func() {
			if err := m.createAccount(t.Context(), testNamespace, time.Time{}); err != nil {
				t.Error(err)
			}
		})
	}
	<-entered
	close(release)
	workers.Wait()
	if got := asked.Load(); got != 1 {
		t.Errorf("the ServiceAccount was requested %d times, want once", got)
	}
	if m.accounts.last(testNamespace).IsZero() {
		t.Error("the process does not know of it")
	}
}

func TestAnAccountThatExistsIsUsedAsItIs(t *testing.T) {
	w := newWorld(t)
	asked := watchAccounts(w, accepted)
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	w.create(&corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: accountName}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}},
	})
	before := w.account()
	w.manager(0).until("the end", w.finished)
	if call := w.call("look"); call.State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the call is %s (%s)", call.State, call.Reason)
	}
	if *asked != 1 || w.account().ResourceVersion != before.ResourceVersion {
		t.Errorf(
			"it was requested %d times and is at %s, before at %s",
			*asked,
			w.account().ResourceVersion,
			before.ResourceVersion,
		)
	}
}

func TestAToolThatNamesAnAccountNeedsNoOther(t *testing.T) {
	w := newWorld(t)
	asked := watchAccounts(w, accepted)
	named := builder.JobTool("look", v1alpha1.SideEffectPure).Obj()
	named.Spec.Job.ServiceAccountName = "default"
	w.begin(named)
	w.manager(0).until("the end", w.finished)
	if *asked != 0 {
		t.Errorf("the ServiceAccount was requested %d times", *asked)
	}
}

func TestAnAccountThatIsRefusedIsReportedAndTriedAgain(t *testing.T) {
	w := newWorld(t)
	full := true
	asked := watchAccounts(w, func() error {
		if full {
			return noRoom()
		}
		return nil
	})
	w.begin(
		builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj(),
		builder.JobTool("read", v1alpha1.SideEffectPure).Obj(),
	)
	m := w.manager(0)
	m.until(
		"the refusal is reported",
		func() bool { return w.call("look").Reason == "ServiceAccountRefused" && *asked > 3 },
	)
	for _, name := range []string{"look", "read"} {
		if call := w.call(
			name,
		); call.State != v1alpha1.ToolCallStatePending ||
			!strings.Contains(call.Preview, "exceeded quota") {
			t.Errorf("the call %s is %s (%s): %q", name, call.State, call.Reason, call.Preview)
		}
	}
	if len(w.jobs()) > 0 {
		t.Error("there is a Job whose pod has no account")
	}
	if *asked > 12 {
		t.Errorf("%d requests were sent", *asked)
	}
	full = false
	m.until("the end", w.finished)
	for _, name := range []string{"look", "read"} {
		if call := w.call(name); call.State != v1alpha1.ToolCallStateSucceeded || strings.Contains(call.Preview, "quota") {
			t.Errorf("the call %s is %s (%s): %q", name, call.State, call.Reason, call.Preview)
		}
	}
}

func TestACallWhoseAccountStaysRefusedIsNotExecuted(t *testing.T) {
	w := newWorld(t)
	asked := watchAccounts(w, noRoom)
	look := builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj()
	look.Spec.Job.StartTimeout = &metav1.Duration{Duration: time.Minute}
	w.begin(look)
	began := w.present()
	w.manager(0).until("the end", w.finished)
	if call := w.call("look"); call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != "QuotaExceeded" {
		t.Errorf("the call is %s (%s)", call.State, call.Reason)
	}
	if text := w.resultText("look"); !strings.Contains(text, accountName) || !strings.Contains(text, "changed nothing") {
		t.Errorf("the model received %q", text)
	}
	if took := w.present().Sub(began); took < time.Minute || took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
	if *asked < 3 || *asked > 15 {
		t.Errorf("%d requests were sent", *asked)
	}
}

func TestAnAccountThatIsGoneIsMadeAgainForAJobThatGetsNoPod(t *testing.T) {
	w := newWorld(t)
	asked := watchAccounts(w, accepted)
	w.begin(builder.JobTool("look", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.withoutCluster("the Job", func() bool { return len(w.jobs()) == 1 })
	account := w.account()
	if err := w.client.Delete(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	m.withoutCluster("the account", func() bool {
		var accounts corev1.ServiceAccountList
		if err := w.client.List(t.Context(), &accounts); err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(
			accounts.Items,
			func(a corev1.ServiceAccount) bool { return a.Name == accountName && a.UID != account.UID },
		)
	})
	m.until("the end", w.finished)
	if call := w.call("look"); call.State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the call is %s (%s)", call.State, call.Reason)
	}
	if *asked != 2 {
		t.Errorf("the ServiceAccount was requested %d times", *asked)
	}
}

func TestWhatAToolIsLentAwaitsThePolicies(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.JobTool)
		want   bool
	}{
		"nothing": {func(*v1alpha1.JobTool) {}, false},
		"a value": {func(j *v1alpha1.JobTool) { j.Env = []v1alpha1.EnvVar{{Name: "A", Value: "b"}} }, false},
		"a Secret": {func(j *v1alpha1.JobTool) {
			j.Env = []v1alpha1.EnvVar{{Name: "A", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "s", Key: "k"}}}
		}, true},
		"an account": {func(j *v1alpha1.JobTool) { j.ServiceAccountName = "default" }, true},
		"pull secret": {
			func(j *v1alpha1.JobTool) { j.ImagePullSecrets = []v1alpha1.LocalReference{{Name: "registry"}} }, true,
		},
	} {
		tool := builder.JobTool("look", v1alpha1.SideEffectPure).Obj()
		test.change(tool.Spec.Job)
		if got := Lent(definition.Of(tool)); got != test.want {
			t.Errorf("%s: it is %t", name, got)
		}
	}
}

func TestAToolThatIsSentSecretsOfTheSessionAwaitsThePolicies(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.HTTPTool)
		want   bool
	}{
		"nothing":     {func(*v1alpha1.HTTPTool) {}, false},
		"an argument": {func(h *v1alpha1.HTTPTool) { h.SecretArguments = []v1alpha1.SecretArgument{"/key"} }, true},
		"a header": {func(h *v1alpha1.HTTPTool) {
			h.Headers = []v1alpha1.HTTPHeader{{Name: "A", SessionSecret: &v1alpha1.HeaderSessionSecret{Name: "key"}}}
		}, true},
	} {
		tool := builder.HTTPTool("ask", v1alpha1.SideEffectPure, "https://example.org/").Obj()
		test.change(tool.Spec.HTTP)
		if got := Lent(definition.Of(tool)); got != test.want {
			t.Errorf("%s: it is %t", name, got)
		}
	}
}

// Rules: SVC-04.
func TestTheAccountOfThePlatformAwaitsThePolicies(t *testing.T) {
	tool := builder.JobTool("send_message", v1alpha1.SideEffectIdempotent).Obj()
	tool.Spec.Job.ServiceAccountName = "operator"
	if !Lent(definition.BuiltinJob("platform", tool)) {
		t.Error("the account is used while a policy is missing")
	}
}
