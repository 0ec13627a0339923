package leader

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestTheAddressIsThatOfThePodThatHoldsTheLease(t *testing.T) {
	holder := process("one", "u1", "n")
	for name, test := range map[string]struct {
		holder string
		uid    string
		want   string
	}{
		"the holder":           {holder.identity(), "u1", "10.0.0.7"},
		"a pod that is gone":   {holder.identity(), "u2", ""},
		"nobody":               {"", "u1", ""},
		"another kind of name": {"host_x", "u1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: "one"}}
			pod.UID, pod.Status.PodIP = "u1", "10.0.0.7"
			if test.uid != "u1" {
				pod.UID = "u2"
			}
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: LeaseName}}
			lease.Spec.HolderIdentity = &test.holder
			now := acquired
			a := &Addresses{
				Live:      fake.NewClientBuilder().WithObjects(pod, lease).Build(),
				Namespace: "capstan-system", Clock: func() time.Time { return now },
			}
			got, err := a.Address(t.Context())
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("the address is %q, %v", got, err)
			}
		})
	}
}
