package pacing

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/internal/controller/watchdog"
)

func TestAPassThatFailsIsRepeatedWithinHalfAMinute(t *testing.T) {
	limiter := Options(1).RateLimiter
	item := reconcile.Request{}
	pause := limiter.When(item)
	if pause != 5*time.Millisecond {
		t.Errorf("at first after %s", pause)
	}
	for range 40 {
		pause = limiter.When(item)
	}
	if pause != 30*time.Second {
		t.Errorf("in the end after %s", pause)
	}
}

// TestAPassThatHangsEndsBeforeItsProcessIsReplaced runs a controller whose pass waits for its context.
func TestAPassThatHangsEndsBeforeItsProcessIsReplaced(t *testing.T) {
	o := Options(1)
	if o.ReconciliationTimeout <= 0 || o.ReconciliationTimeout >= watchdog.Limit {
		t.Fatalf("a pass may take %s, and the process is replaced after %s", o.ReconciliationTimeout, watchdog.Limit)
	}
	o.ReconciliationTimeout /= 10_000 // Here, 12 ms.
	skip := true
	o.SkipNameValidation = &skip
	ended := make(chan error, 1)
	o.Reconciler = reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		<-ctx.Done()
		ended <- ctx.Err()
		return reconcile.Result{}, nil
	})
	c, err := controller.NewTypedUnmanaged("hanging", o)
	if err != nil {
		t.Fatal(err)
	}
	events := make(chan event.GenericEvent, 1)
	events <- event.GenericEvent{Object: &corev1.ConfigMap{}}
	if err := c.Watch(source.Channel(events, &handler.EnqueueRequestForObject{})); err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(t.Context()) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the pass ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the pass does not end")
	}
}

func TestAPassOfAQuietNamespaceIsNotTheLastOfAll(t *testing.T) {
	o := Options(1)
	queue := o.NewQueue("test", o.RateLimiter)
	t.Cleanup(queue.ShutDown)
	of := func(namespace, name string) reconcile.Request {
		return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	for i := range 1000 {
		queue.Add(of("loud", fmt.Sprint(i)))
	}
	queue.Add(of("quiet", "1"))
	for served := 1; ; served++ {
		item, _ := queue.Get()
		queue.Done(item)
		if item.Namespace == "quiet" {
			if served > 2 {
				t.Errorf("the pass of the quiet namespace is number %d", served)
			}
			return
		}
	}
}

func TestEveryReconcilerIsPaced(t *testing.T) {
	const made = "ctrl.NewControllerManagedBy("
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		controllers := strings.Count(string(source), made)
		found += controllers
		if paced := strings.Count(string(source), "WithOptions(pacing.Options("); paced != controllers {
			t.Errorf("%s makes %d controllers, of which %d are paced", path, controllers, paced)
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("%d controllers, %v", found, err)
	}
}

// A change that may concern many objects goes through a FanOut. These map it to one object, or cost as many writes as
// they enqueue objects.
func TestNoChangeEnqueuesManyObjectsUnbounded(t *testing.T) {
	bounded := map[string]bool{
		"ofTurn": true, "r.ofSteer": true, "r.ofSteered": true, "r.ofSession": true, "r.ofEverySession": true,
		"r.ofLabelled": true, "r.ofToolResult": true, "r.strays": true, "r.ofTurn": true, "callerOf": true,
		"ofJob": true, "r.ofPod": true,
	}
	use := regexp.MustCompile(`EnqueueRequestsFromMapFunc\(([\w.]+)\)`)
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range use.FindAllStringSubmatch(string(source), -1) {
			found++
			if !bounded[match[1]] {
				t.Errorf("%s: %s is not known to enqueue few objects", path, match[1])
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d uses, %v", found, err)
	}
}
