package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	leasecontroller "github.com/capstan-dev/capstan/internal/controller/lease"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// leased is the lease of a Session on a resource, with its own id.
func leased(namespace, session string) *v1alpha1.LeasedResource {
	of := lease.Identity{Provider: "p", Type: "vm", ExternalID: "of-" + session}
	return &v1alpha1.LeasedResource{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: lease.Name(namespace, of)},
		Spec: v1alpha1.LeasedResourceSpec{
			DesiredState: v1alpha1.LeaseDesiredStateActive, Provider: of.Provider, Type: of.Type, ExternalID: of.ExternalID,
			Duration:   metav1.Duration{Duration: time.Hour},
			SessionRef: v1alpha1.ObjectIdentity{Name: session, UID: types.UID("uid-" + session)},
		},
	}
}

// registries are calls of the tools for resources, with arguments that a model has written.
func registries(t *testing.T) subject {
	scheme := runtime.NewScheme()
	must(t, v1alpha1.AddToScheme(scheme))
	all := []*v1alpha1.LeasedResource{
		leased(attacker, attacker), leased(attacker, "neighbour"), leased(bystander, bystander),
	}
	made := fake.NewClientBuilder().WithScheme(scheme)
	for _, l := range all {
		made = made.WithObjects(l)
	}
	live := made.Build()
	host := &leasecontroller.Reconciler{Client: live, Live: live, Clock: time.Now}
	store := record.New(memory.New(), record.Options{})
	services := func(namespace string) builtin.Services {
		of := record.Session{Namespace: namespace, Name: namespace, UID: types.UID("uid-" + namespace)}
		registry := resource.Of(store, of)
		must(t, registry.RegisterLease(t.Context(), resource.Draft{ID: leased(namespace, namespace).Name, Kind: "vm"}))
		return builtin.Services{Resources: registry, Leases: lease.Own{
			Host: host, Owner: lease.Owner{Namespace: of.Namespace, Name: of.Name, UID: of.UID},
		}}
	}
	mine, theirs := services(attacker), services(bystander)
	var calls atomic.Int64
	call := func(ctx context.Context, of builtin.Services, name, arguments string) string {
		return builtinCall(ctx, t, "session_resources", name, builtin.Call{
			Arguments: arguments, Services: of, Cause: record.Cause{Step: calls.Add(1), Key: "turn/1-0"},
		})
	}
	attempts := func(name string, all ...[2]string) class {
		c := class{name: name, refused: true}
		for _, a := range all {
			c.attempts = append(c.attempts, attempt{name: a[0] + " " + a[1], run: func(ctx context.Context) string {
				return call(ctx, mine, a[0], a[1])
			}})
		}
		return c
	}
	release := func(provider, kind, id string) [2]string {
		return [2]string{"release_resource", fmt.Sprintf(`{"provider":%q,"type":%q,"external_id":%q}`, provider, kind, id)}
	}
	own, foreign := leased(attacker, attacker).Name, leased(bystander, bystander).Name
	register := func(id, rest string) [2]string {
		return [2]string{"register_resource", `{"id":"` + id + `","kind":"vm"` + rest + `}`}
	}
	return subject{
		name: "Resources of a Session",
		classes: []class{
			attempts("the resources of others", release("p", "vm", "of-neighbour"), release("p", "vm", "of-"+bystander),
				release("p", "vm", "../"+bystander), release("../p", "vm", "of-"+bystander), release("p", "v", "mof-"+bystander)),
			attempts("the entries of leases", [2]string{"update_resource", `{"id":"` + own + `","status":"released"}`},
				[2]string{"deregister_resource", `{"id":"` + own + `"}`}, register(own, ""), register("lease-", ""),
				[2]string{"get_resource", `{"id":"` + foreign + `"}`}),
			attempts("ids and metadata", register(`a\u0000b`, ""), register(`a\u001b]0;b`, ""),
				register(strings.Repeat("i", 129), ""), register("a", `,"metadata":{"k":"`+strings.Repeat("x", 1025)+`"}`),
				register("a", `,"metadata":{"`+strings.Repeat("k", 64)+`":"x"}`)),
		},
		other: func(ctx context.Context) error {
			if seen := call(ctx, theirs, "list_resources", `{}`); !strings.Contains(seen, foreign) {
				return errors.New(seen)
			}
			return nil
		},
		after: func(t *testing.T) {
			for _, l := range all {
				now := &v1alpha1.LeasedResource{}
				must(t, live.Get(t.Context(), client.ObjectKeyFromObject(l), now))
				if now.Spec.DesiredState != v1alpha1.LeaseDesiredStateActive {
					t.Errorf("the attempts have released %s", l.Spec.ExternalID)
				}
			}
			if seen := call(t.Context(), mine, "list_resources", `{}`); strings.Count(seen, `"id":`) != 1 {
				t.Errorf("the attempts have left %s", seen)
			}
		},
	}
}
