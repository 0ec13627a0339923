package status

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func testScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func asObject(t *testing.T, o runtime.Object) client.Object {
	t.Helper()
	object, ok := o.(client.Object)
	if !ok {
		t.Fatalf("%T is no API object", o)
	}
	return object
}

// server is a fake API server with one Harness, which records the received patches.
func server(t *testing.T) (client.Client, *v1alpha1.Harness, *[]string) {
	t.Helper()
	harness := &v1alpha1.Harness{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "base", Labels: map[string]string{"team": "a"}},
		Spec:       v1alpha1.HarnessSpec{Lifecycle: v1alpha1.LifecycleActive},
		Status:     v1alpha1.HarnessStatus{Chain: []string{"root", "base"}, ObservedGeneration: 1},
	}
	var patches []string
	c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithObjects(harness).WithStatusSubresource(harness).
		WithInterceptorFuncs(interceptor.Funcs{
			SubResourcePatch: func(
				ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
				opts ...client.SubResourcePatchOption,
			) error {
				data, err := p.Data(o)
				if err != nil {
					return err
				}
				patches = append(patches, sub+" "+string(data))
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		}).Build()
	stored := &v1alpha1.Harness{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(harness), stored); err != nil {
		t.Fatal(err)
	}
	return c, stored, &patches
}

func TestPatchSendsOnlyWhatChanged(t *testing.T) {
	c, base, patches := server(t)
	next := base.DeepCopy()
	next.Status.ObservedGeneration = 2
	next.Labels["team"] = "b"
	next.Spec.SystemPrompt = "not for the status"

	changed, err := Patch(t.Context(), c, base, next)
	if err != nil || !changed {
		t.Fatalf("Patch = %t, %v", changed, err)
	}
	want := `status {"metadata":{"resourceVersion":"` + base.ResourceVersion + `"},"status":{"observedGeneration":2}}`
	if len(*patches) != 1 || (*patches)[0] != want {
		t.Errorf("patches = %v, want %s", *patches, want)
	}
	if next.ResourceVersion == base.ResourceVersion || next.Status.ObservedGeneration != 2 || len(next.Status.Chain) != 2 {
		t.Errorf("next is not the server's response: %+v", next)
	}
	if next.Labels["team"] != "a" || next.Spec.SystemPrompt != "" {
		t.Errorf("next has fields that the server does not have: %+v", next)
	}
}

func TestPatchTakesAwayWhatIsGone(t *testing.T) {
	c, base, _ := server(t)
	next := base.DeepCopy()
	next.Status = v1alpha1.HarnessStatus{}
	if changed, err := Patch(t.Context(), c, base, next); err != nil || !changed {
		t.Fatalf("Patch = %t, %v", changed, err)
	}
	stored := &v1alpha1.Harness{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(base), stored); err != nil {
		t.Fatal(err)
	}
	if stored.Status.Chain != nil || stored.Status.ObservedGeneration != 0 {
		t.Errorf("status = %+v, want none", stored.Status)
	}
}

func TestPatchWithoutADifferenceIsNoCall(t *testing.T) {
	c, base, patches := server(t)
	next := base.DeepCopy()
	next.Spec.SystemPrompt = "not for the status"
	next.Status.Conditions = []metav1.Condition{}
	if changed, err := Patch(t.Context(), c, base, next); err != nil || changed || len(*patches) != 0 {
		t.Errorf("Patch = %t, %v after the patches %v", changed, err, *patches)
	}
}

func TestPatchLosesAgainstAnotherWrite(t *testing.T) {
	c, base, _ := server(t)
	first, second := base.DeepCopy(), base.DeepCopy()
	first.Status.ObservedGeneration = 2
	second.Status.ObservedGeneration = 3
	if _, err := Patch(t.Context(), c, base, first); err != nil {
		t.Fatal(err)
	}
	changed, err := Patch(t.Context(), c, base, second)
	if changed || !apierrors.IsConflict(err) {
		t.Fatalf("Patch = %t, %v, want a conflict", changed, err)
	}
	if second.Status.ObservedGeneration != 3 || second.ResourceVersion != base.ResourceVersion {
		t.Errorf("a failed write changed the object: %+v", second)
	}
	result, err := Write(t.Context(), c, base, second)
	if err != nil || result.RequeueAfter <= 0 {
		t.Errorf("Write = %+v, %v, want another pass", result, err)
	}
}

func TestPatchNeedsAnObjectThatWasRead(t *testing.T) {
	c, base, patches := server(t)
	next := base.DeepCopy()
	next.Status.ObservedGeneration = 2
	base.ResourceVersion = ""
	if changed, err := Patch(t.Context(), c, base, next); err == nil || changed || len(*patches) != 0 {
		t.Errorf("Patch = %t, %v after the patches %v, want an error without a call", changed, err, *patches)
	}
}

func TestWriteTakesAnObjectThatIsGoneAsDone(t *testing.T) {
	c, base, _ := server(t)
	if err := c.Delete(t.Context(), base.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	next := base.DeepCopy()
	next.Status.ObservedGeneration = 2
	if result, err := Write(t.Context(), c, base, next); err != nil || result.RequeueAfter != 0 {
		t.Errorf("Write = %+v, %v", result, err)
	}
}

func TestWritePassesOtherErrorsOn(t *testing.T) {
	_, base, _ := server(t)
	broken := errors.New("the server is on fire")
	c := fake.NewClientBuilder().WithScheme(testScheme(t)).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(
			context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption,
		) error {
			return broken
		},
	}).Build()
	next := base.DeepCopy()
	next.Status.ObservedGeneration = 2
	if _, err := Write(t.Context(), c, base, next); !errors.Is(err, broken) {
		t.Errorf("Write = %v, want %v", err, broken)
	}
}
