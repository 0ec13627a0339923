package harness

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// indexParent finds the Harnesses that build on another one.
const indexParent = "parentName"

func parent(o client.Object) []string {
	if harness, ok := o.(*v1alpha1.Harness); ok && harness.Spec.ParentRef != nil {
		return []string{harness.Spec.ParentRef.Name}
	}
	return nil
}

func layer(o client.Object) v1alpha1.ConfigLayer {
	if harness, ok := o.(*v1alpha1.Harness); ok {
		return harness.Spec.ConfigLayer
	}
	return v1alpha1.ConfigLayer{}
}

// descendants returns the Harnesses that build on one, directly or not, without itself.
func (r *Reconciler) descendants(ctx context.Context, ancestor client.Object) []reconcile.Request {
	found := map[string]bool{ancestor.GetName(): true}
	return r.below(ctx, ancestor.GetNamespace(), []string{ancestor.GetName()}, found)
}

// naming returns the Harnesses that name an object, by a field of the index, and all that build on them.
func (r *Reconciler) naming(field string) handler.MapFunc {
	return func(ctx context.Context, named client.Object) []reconcile.Request {
		names := r.find(ctx, named.GetNamespace(), field, named.GetName())
		found := map[string]bool{}
		requests := make([]reconcile.Request, 0, len(names))
		for _, name := range names {
			found[name] = true
			requests = append(requests, request(named.GetNamespace(), name))
		}
		return append(requests, r.below(ctx, named.GetNamespace(), names, found)...)
	}
}

// below returns the Harnesses that build on the given ones and were not found before.
func (r *Reconciler) below(
	ctx context.Context,
	namespace string,
	names []string,
	found map[string]bool,
) []reconcile.Request {
	var requests []reconcile.Request
	for len(names) > 0 {
		children := r.find(ctx, namespace, indexParent, names[0])
		names = names[1:]
		for _, child := range children {
			if found[child] {
				continue
			}
			found[child] = true
			names = append(names, child)
			requests = append(requests, request(namespace, child))
		}
	}
	return requests
}

// find returns the names of the Harnesses that have a value in a field of the index.
func (r *Reconciler) find(ctx context.Context, namespace, field, value string) []string {
	var harnesses v1alpha1.HarnessList
	if err := r.Client.List(
		ctx,
		&harnesses,
		client.InNamespace(namespace),
		client.MatchingFields{field: value},
	); err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Harnesses that refer to an object",
			"field", field, "name", value)
		return nil
	}
	names := make([]string, 0, len(harnesses.Items))
	for i := range harnesses.Items {
		names = append(names, harnesses.Items[i].Name)
	}
	return names
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
