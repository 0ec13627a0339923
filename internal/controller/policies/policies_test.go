package policies_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/controller/policies"
)

const account = "system:serviceaccount:capstan-system:capstan-manager"

// cluster returns a client with the policies of an installation.
func cluster(t *testing.T, get func(client.ObjectKey) error) client.WithWatch {
	t.Helper()
	installed, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for _, p := range installed {
		objects = append(objects, p.Policy, p.Binding)
	}
	return fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption,
		) error {
			if get != nil {
				if err := get(key); err != nil {
					return err
				}
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
}

func TestWhileAPolicyIsMissingNoSecretIsReadAndTurnsWait(t *testing.T) {
	ctx := t.Context()
	c := cluster(t, nil)
	var woken, models []types.NamespacedName
	v := &policies.Verifier{
		Live: c, Account: account, Wake: func(key types.NamespacedName) { woken = append(woken, key) },
		WakeModel: func(key types.NamespacedName) { models = append(models, key) },
	}
	read := v.Guard(func(context.Context, string, string) (*corev1.Secret, error) { return &corev1.Secret{}, nil })
	if _, err := read(ctx, "a", "s"); err == nil || v.Check(nil) == nil {
		t.Error("a Secret is read before the first look")
	}
	v.Refresh(ctx)
	if _, err := read(
		ctx,
		"a",
		"s",
	); err != nil || v.Check(nil) != nil ||
		v.Await(types.NamespacedName{Name: "x"}) != nil {
		t.Errorf("with all policies: %v, %v", err, v.Check(nil))
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	if err := c.Get(ctx, client.ObjectKey{Name: "capstan-tool-identities"}, binding); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(ctx, binding); err != nil {
		t.Fatal(err)
	}
	v.Refresh(ctx)
	var missing *policies.NotInForceError
	if _, err := read(
		ctx,
		"a",
		"s",
	); !errors.As(err, &missing) ||
		missing.Why != `ValidatingAdmissionPolicyBinding "capstan-tool-identities" does not exist` {
		t.Errorf("without a binding: %v", err)
	}
	waits := types.NamespacedName{Namespace: "a", Name: "waits"}
	if v.Await(waits) == nil || v.AwaitModel(waits) == nil || v.Check(nil) == nil {
		t.Error("nothing waits, or the manager is ready")
	}
	binding.ResourceVersion = ""
	if err := c.Create(ctx, binding); err != nil {
		t.Fatal(err)
	}
	v.Refresh(ctx)
	if want := []types.NamespacedName{
		waits,
	}; v.InForce() != nil || !slices.Equal(woken, want) ||
		!slices.Equal(models, want) {
		t.Errorf("with the binding again: %v, woken %v and Models %v", v.InForce(), woken, models)
	}
}

func TestAnAPIServerThatDoesNotAnswerChangesNothing(t *testing.T) {
	ctx := t.Context()
	var fails error
	v := &policies.Verifier{Live: cluster(t, func(client.ObjectKey) error { return fails }), Account: account}
	fails = apierrors.NewServiceUnavailable("later")
	v.Refresh(ctx)
	if v.InForce() == nil {
		t.Error("a policy that was never seen is in force")
	}
	fails = nil
	v.Refresh(ctx)
	fails = apierrors.NewServiceUnavailable("later")
	v.Refresh(ctx)
	if err := v.InForce(); err != nil {
		t.Errorf("a failure of the API server counts: %v", err)
	}
	fails = apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "x", nil)
	v.Refresh(ctx)
	if v.InForce() == nil {
		t.Error("a policy that may not be read is in force")
	}
}
