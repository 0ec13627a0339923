// Package suite sets up what the suites share: the API server, logs, the patience of Eventually, namespaces.
package suite

import (
	"context"
	"io"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Polling is how often Eventually looks, unless a suite needs another interval.
const Polling = 20 * time.Millisecond

// Configure sets the logger of the controllers, how long Eventually waits, and how often it looks. controller-runtime
// takes the first logger that a process sets.
func Configure(log logr.Logger, timeout, polling time.Duration) {
	ctrl.SetLogger(log)
	SetDefaultEventuallyTimeout(timeout)
	SetDefaultEventuallyPollingInterval(polling)
}

// Logger writes to the report of the running spec, and to other writers.
func Logger(others ...io.Writer) logr.Logger {
	writers := append([]io.Writer{GinkgoWriter}, others...)
	return zap.New(zap.WriteTo(io.MultiWriter(writers...)), zap.UseDevMode(true))
}

// Namespace creates a namespace whose name begins with the prefix, and returns its name. Namespaces stay until the API
// server stops: it has no controller that empties them.
func Namespace(ctx context.Context, c client.Client, prefix string) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: prefix}}
	Expect(c.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// Create creates objects, one after another.
func Create(ctx context.Context, c client.Client, objects ...client.Object) {
	GinkgoHelper()
	for _, object := range objects {
		Expect(c.Create(ctx, object)).To(Succeed())
	}
}
