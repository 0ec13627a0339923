package servicepods

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

var asked = egress.Service{Namespace: "team-a", Name: "models", Port: 80}

// newService is a Service that selects app=models, and forwards port 80 to the port http of its pods.
func newService(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "models"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "models"},
			Ports: []corev1.ServicePort{
				{Name: "metrics", Port: 9090, TargetPort: intstr.FromInt32(9091)},
				{Name: "http", Port: 80, TargetPort: intstr.FromString("http")},
			},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// newPod is a pod behind newService.
func newPod(name string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team-a", Name: name, UID: types.UID("uid of " + name),
			Labels: map[string]string{"app": "models", "other": "label"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "server", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 11434}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "192.168.0.2", HostIPs: []corev1.HostIP{{IP: "192.168.0.2"}},
			PodIPs:     []corev1.PodIP{{IP: "10.0.0.7"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// finder reads objects, by functions that may fail.
func finder(functions interceptor.Funcs, objects ...client.Object) Finder {
	index := func(o client.Object) []string {
		pod, ok := o.(*corev1.Pod)
		if !ok {
			return nil
		}
		return []string{string(pod.Status.Phase)}
	}
	return Finder{Live: fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(functions).
		WithIndex(&corev1.Pod{}, "status.phase", index).Build()}
}

func TestAPodBehindAServiceIsFoundAtTheAddressOfItsKubelet(t *testing.T) {
	f := finder(interceptor.Funcs{}, newService(nil), newPod("models-0", nil))
	found, err := f.Backends(t.Context(), asked)
	if err != nil || len(found) != 1 || found[0].Address.String() != "10.0.0.7:11434" {
		t.Fatalf("%v, %v", found, err)
	}
	if err := f.Confirm(t.Context(), asked, found[0]); err != nil {
		t.Errorf("the same pod is not confirmed: %v", err)
	}
}

func TestPortsByNumberByNameAndOfSidecars(t *testing.T) {
	for name, test := range map[string]struct {
		service func(*corev1.Service)
		pod     func(*corev1.Pod)
		want    string
	}{
		"number":  {func(s *corev1.Service) { s.Spec.Ports[1].TargetPort = intstr.FromInt32(8000) }, nil, "10.0.0.7:8000"},
		"same":    {func(s *corev1.Service) { s.Spec.Ports[1].TargetPort = intstr.IntOrString{} }, nil, "10.0.0.7:80"},
		"unknown": {func(s *corev1.Service) { s.Spec.Ports[1].TargetPort = intstr.FromString("no") }, nil, ""},
		"of a sidecar": {nil, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{
				RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
				Ports:         []corev1.ContainerPort{{Name: "http", ContainerPort: 81}},
			}}
			p.Spec.Containers[0].Ports = nil
		}, "10.0.0.7:81"},
		"of an init container": {nil, func(p *corev1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers = p.Spec.Containers, []corev1.Container{{Name: "server"}}
		}, ""},
		"of UDP": {nil, func(p *corev1.Pod) { p.Spec.Containers[0].Ports[0].Protocol = corev1.ProtocolUDP }, ""},
		"two addresses": {nil, func(p *corev1.Pod) {
			p.Status.PodIPs = []corev1.PodIP{{IP: "fd00::7"}}
		}, "[fd00::7]:11434"},
		"headless": {func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, nil, "10.0.0.7:11434"},
	} {
		found, err := finder(interceptor.Funcs{}, newService(test.service), newPod("models-0", test.pod)).
			Backends(t.Context(), asked)
		got := ""
		if len(found) == 1 {
			got = found[0].Address.String()
		}
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

// unfit are changes after which a pod serves nothing.
var unfit = map[string]func(*corev1.Pod){
	"on the network of its node": func(p *corev1.Pod) { p.Spec.HostNetwork = true },
	"with the address of its node": func(p *corev1.Pod) {
		p.Status.PodIPs = []corev1.PodIP{{IP: p.Status.HostIP}}
	},
	"with another address of its node": func(p *corev1.Pod) {
		p.Status.HostIPs = append(p.Status.HostIPs, corev1.HostIP{IP: "10.0.0.7"})
	},
	"not Ready":      func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
	"not yet Ready":  func(p *corev1.Pod) { p.Status.Conditions = nil },
	"pending":        func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending },
	"ended":          func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
	"with no label":  func(p *corev1.Pod) { p.Labels = nil },
	"with no IP":     func(p *corev1.Pod) { p.Status.PodIPs = nil },
	"with a bad IP":  func(p *corev1.Pod) { p.Status.PodIPs = []corev1.PodIP{{IP: "models"}} },
	"being deleted":  terminating,
	"with other app": func(p *corev1.Pod) { p.Labels["app"] = "others" },
}

func terminating(p *corev1.Pod) {
	p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
}

func TestAPodThatDoesNotServeIsNotConnectedTo(t *testing.T) {
	for name, change := range unfit {
		found, err := finder(interceptor.Funcs{}, newService(nil), newPod("models-0", change)).Backends(t.Context(), asked)
		var refused *egress.Error
		if len(found) > 0 || !errors.As(err, &refused) || refused.Reason != egress.ReasonUnreachable {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
	elsewhere := newPod("models-0", func(p *corev1.Pod) { p.Namespace = "team-b" })
	if found, err := finder(interceptor.Funcs{}, newService(nil), elsewhere).Backends(t.Context(), asked); err == nil {
		t.Errorf("a pod of another namespace: %v", found)
	}
}

func TestAPodThatHasChangedSinceIsNotConfirmed(t *testing.T) {
	first, err := finder(interceptor.Funcs{}, newService(nil), newPod("models-0", nil)).Backends(t.Context(), asked)
	if err != nil {
		t.Fatal(err)
	}
	changes := map[string]func(*corev1.Pod){
		"replaced":        func(p *corev1.Pod) { p.UID = "another" },
		"another address": func(p *corev1.Pod) { p.Status.PodIPs[0].IP = "10.0.0.8" },
	}
	for name, change := range unfit {
		changes[name] = change
	}
	for name, change := range changes {
		err := finder(interceptor.Funcs{}, newService(nil), newPod("models-0", change)).
			Confirm(t.Context(), asked, first[0])
		var refused *egress.Error
		if !errors.As(err, &refused) || refused.Reason != egress.ReasonUnreachable {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := finder(interceptor.Funcs{}).Confirm(t.Context(), asked, first[0]); err == nil {
		t.Error("a pod that is gone is confirmed")
	}
}

func TestAServiceThatCannotBeReachedReportsWhy(t *testing.T) {
	for want, change := range map[string]func(*corev1.Service){
		"has the type ExternalName": func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "kubernetes.default.svc"
		},
		"has no selector":    func(s *corev1.Service) { s.Spec.Selector = nil },
		"has no TCP port 80": func(s *corev1.Service) { s.Spec.Ports[1].Protocol = corev1.ProtocolUDP },
		"does not exist":     func(s *corev1.Service) { s.Name = "other" },
	} {
		_, err := finder(interceptor.Funcs{}, newService(change), newPod("models-0", nil)).Backends(t.Context(), asked)
		var refused *egress.Error
		if !errors.As(err, &refused) || refused.Reason != egress.ReasonRefused || !strings.Contains(refused.Text, want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestErrorsOfTheAPIServerAreNotShown(t *testing.T) {
	failing := errors.New("dial tcp 10.96.0.1:443: connection refused")
	first := egress.Backend{Pod: "models-0"}
	f := finder(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return failing
		},
	})
	_, err := f.Backends(t.Context(), asked)
	for _, err := range []error{err, f.Confirm(t.Context(), asked, first)} {
		var shown *egress.Error
		if errors.As(err, &shown) || !errors.Is(err, failing) {
			t.Errorf("got %v", err)
		}
	}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "models", nil)
	f = finder(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
	})
	var refused *egress.Error
	if _, err = f.Backends(
		t.Context(),
		asked,
	); !errors.As(err, &refused) ||
		!strings.Contains(refused.Text, "no permission") {
		t.Errorf("got %v", err)
	}
}

func TestAServiceWithManyPodsIsReadInPagesUpToALimit(t *testing.T) {
	lists := 0
	counted := interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			o := (&client.ListOptions{}).ApplyOptions(options)
			pods, ok := list.(*corev1.PodList)
			if !ok || o.Limit != pageSize {
				return fmt.Errorf("listing %T with limit %d", list, o.Limit)
			}
			lists++
			pods.Items = []corev1.Pod{*newPod("waiting", unfit["not Ready"])}
			pods.Continue = "more"
			return nil
		},
	}
	if _, err := finder(counted, newService(nil)).Backends(t.Context(), asked); err == nil || lists != maxPages {
		t.Errorf("%v after %d lists", err, lists)
	}
}
