//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// logsWaits makes the manager log how long each namespace waits for its share of something.
const logsWaits = "--zap-log-level=debug"

// waits are the waiting times of namespaces, from the manager's log, by namespace and resource.
type waits struct {
	mu sync.Mutex
	of map[string]map[string][]time.Duration
}

// waitsOf follows the log of the manager until the end of the spec.
func waitsOf(ctx context.Context) *waits {
	GinkgoHelper()
	m := settled(ctx)
	w := &waits{of: map[string]map[string][]time.Duration{}}
	log, err := clientset.CoreV1().
		Pods(m.pod.Namespace).
		GetLogs(m.pod.Name, &corev1.PodLogOptions{Follow: true, Container: managerContainer}).
		Stream(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(log.Close)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			w.note(lines.Bytes())
		}
	}()
	return w
}

func (w *waits) note(line []byte) {
	var wait struct {
		Message   string  `json:"msg"`
		Resource  string  `json:"resource"`
		Namespace string  `json:"namespace"`
		Seconds   float64 `json:"seconds"`
	}
	if json.Unmarshal(line, &wait) != nil || wait.Message != "Waited for a share" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of[wait.Namespace] == nil {
		w.of[wait.Namespace] = map[string][]time.Duration{}
	}
	of := w.of[wait.Namespace]
	of[wait.Resource] = append(of[wait.Resource], time.Duration(wait.Seconds*float64(time.Second)))
}

// take describes what a namespace has waited for.
func (w *waits) take(namespace string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := []string{"waits of 10 ms or more in the manager:"}
	for _, resource := range slices.Sorted(maps.Keys(w.of[namespace])) {
		of := w.of[namespace][resource]
		var sum time.Duration
		for _, wait := range of {
			sum += wait
		}
		lines = append(
			lines,
			fmt.Sprintf("  %s: %d, %s, together %s", resource, len(of), quantiles(of), sum.Round(time.Millisecond)),
		)
	}
	if len(lines) == 1 {
		lines = append(lines, "  none")
	}
	return strings.Join(lines, "\n")
}

// sharesOf are the lines of the manager's metrics about shares.
func sharesOf(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "capstan_share_") || strings.HasPrefix(line, "capstan_turn_slots_") ||
			strings.HasPrefix(line, "go_memstats_heap_inuse") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines, "\n")
}
