package capstantest

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// wire is between the controllers and the API server: timestamps are converted to the kit's clock, and Jobs are refused
// if a test requires it.
type wire struct {
	clock  *Clock
	player *player
}

// view is a manager whose direct reads pass the wire as well.
type view struct {
	manager.Manager
	reader client.Reader
}

// GetAPIReader implements manager.Manager.
func (v view) GetAPIReader() client.Reader { return v.reader }

// cached makes all objects of the cache pass the wire.
func (w *wire) cached(o cache.Options) cache.Options {
	o.DefaultTransform = w.transform(o.DefaultTransform)
	for object, by := range o.ByObject {
		if by.Transform != nil {
			by.Transform = w.transform(by.Transform)
			o.ByObject[object] = by
		}
	}
	return o
}

func (w *wire) transform(next toolscache.TransformFunc) toolscache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(metav1.Object); ok {
			w.clock.Date(o)
		}
		if next == nil {
			return object, nil
		}
		return next(object)
	}
}

// wrap makes the requests of a client pass the wire.
func (w *wire) wrap(inner client.WithWatch) client.WithWatch {
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
		) error {
			return w.dated(object, c.Get(ctx, key, object, o...))
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if err := c.List(ctx, list, o...); err != nil {
				return err
			}
			return meta.EachListItem(list, func(item runtime.Object) error {
				if object, ok := item.(metav1.Object); ok {
					w.clock.Date(object)
				}
				return nil
			})
		},
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.CreateOption) error {
			if job, ok := object.(*batchv1.Job); ok && w.player.faultOf(callOf(job)) == JobRefused {
				return refusal(job)
			}
			return w.dated(object, c.Create(ctx, object, o...))
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, o ...client.UpdateOption) error {
			return w.dated(object, c.Update(ctx, object, o...))
		},
		Patch: func(
			ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, o ...client.PatchOption,
		) error {
			return w.dated(object, c.Patch(ctx, object, patch, o...))
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch,
			o ...client.SubResourcePatchOption,
		) error {
			return w.dated(object, c.SubResource(name).Patch(ctx, object, patch, o...))
		},
	})
}

func (w *wire) dated(object client.Object, err error) error {
	if err == nil {
		w.clock.Date(object)
	}
	return err
}

// refusal is the API server's response if an admission policy does not permit a Job.
func refusal(job *batchv1.Job) error {
	return apierrors.NewForbidden(batchv1.Resource("jobs"), job.Name,
		errors.New("ValidatingAdmissionPolicy 'capstantest' with binding 'capstantest' denied request: no Jobs here"))
}
