package harness

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
)

// descendants returns the Harnesses that build on one, directly or not, without itself.
func (r *Reconciler) descendants(ctx context.Context, ancestor client.Object) []reconcile.Request {
	found := map[string]bool{ancestor.GetName(): true}
	return r.children(ctx, ancestor.GetNamespace(), []string{ancestor.GetName()}, found)
}

// ofModel returns the Harnesses that name a Model, or one that falls back to it, and all that build on them.
func (r *Reconciler) ofModel(ctx context.Context, model client.Object) []reconcile.Request {
	callers, err := configsource.Callers(ctx, r.Client, model)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Models that fall back to a Model", "name", model.GetName())
		return nil
	}
	return r.referencing(ctx, model.GetNamespace(), fieldindex.ModelName, callers...)
}

// ofTool returns the Harnesses that name a Tool, or a Capability that has it, and all that build on them.
func (r *Reconciler) ofTool(ctx context.Context, tool client.Object) []reconcile.Request {
	return r.naming(ctx, fieldindex.ToolName, tool)
}

// ofServer returns the Harnesses that name an MCPServer, or a Capability that has it, and all that build on them.
func (r *Reconciler) ofServer(ctx context.Context, server client.Object) []reconcile.Request {
	return r.naming(ctx, fieldindex.MCPServerName, server)
}

// ofCapability returns the Harnesses that name a Capability, or one that depends on it, and all that build on them.
func (r *Reconciler) ofCapability(ctx context.Context, o client.Object) []reconcile.Request {
	names, err := configsource.Dependents(ctx, r.Client, o.GetNamespace(), o.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the dependents of a Capability", "name", o.GetName())
		return nil
	}
	return r.referencing(ctx, o.GetNamespace(), fieldindex.CapabilityName, append(names, o.GetName())...)
}

// naming returns the Harnesses that have an object in a field of the index, or a Capability that has it, and all that
// build on them.
func (r *Reconciler) naming(ctx context.Context, field string, object client.Object) []reconcile.Request {
	names, err := configsource.CapabilitiesNaming(ctx, r.Client, field, object)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Capabilities that name an object", "name", object.GetName())
		return nil
	}
	requests := r.referencing(ctx, object.GetNamespace(), field, object.GetName())
	return append(requests, r.referencing(ctx, object.GetNamespace(), fieldindex.CapabilityName, names...)...)
}

// referencing returns the Harnesses that have one of the values in a field of the index, and all that build on them.
func (r *Reconciler) referencing(ctx context.Context, namespace, field string, values ...string) []reconcile.Request {
	var names []string
	for _, value := range values {
		names = append(names, r.find(ctx, namespace, field, value)...)
	}
	found := map[string]bool{}
	requests := make([]reconcile.Request, 0, len(names))
	for _, name := range names {
		found[name] = true
		requests = append(requests, request(namespace, name))
	}
	return append(requests, r.children(ctx, namespace, names, found)...)
}

// children returns the Harnesses that build on the given ones and were not found before.
func (r *Reconciler) children(
	ctx context.Context,
	namespace string,
	names []string,
	found map[string]bool,
) []reconcile.Request {
	var requests []reconcile.Request
	for len(names) > 0 {
		children := r.find(ctx, namespace, fieldindex.ParentName, names[0])
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
