//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// loadLabel marks the specs that take minutes on an otherwise idle machine: `make test-load` runs them, one at a time.
const loadLabel = "load"

// loadLimit bounds a spec under load.
const loadLimit = 40 * time.Minute

// creators is how many objects a spec under load creates at once.
const creators = 16

var _ = Describe("Under load", alone, Label(loadLabel, hereLabel), func() {
	DescribeTable("5,100 Turns in 51 namespaces, applied at once, all succeed with a manager",
		func(ctx SpecContext, limit string) {
			limitMemory(ctx, limit)
			before := settled(ctx)
			script := slow(time.Second, builder.Script("the answer"))
			const spaces, sessions, turns = 51, 10, 10
			all := make([]string, spaces)
			for i := range all {
				all[i] = newStage(ctx, script)
			}
			each(ctx, spaces*sessions, func(ctx context.Context, i int) error {
				return api.Create(ctx, builder.Session(fmt.Sprintf("s%d", i/spaces)).In(all[i%spaces]).Obj())
			})
			began := time.Now()
			each(ctx, spaces*sessions*turns, func(ctx context.Context, i int) error {
				session := fmt.Sprintf("s%d", i/spaces%sessions)
				turn := builder.Turn(fmt.Sprintf("%s-%d", session, i/spaces/sessions)).In(all[i%spaces]).Input("Please.").Obj()
				turn.Spec.SessionRef.Name = session
				return api.Create(ctx, turn)
			})
			show("created in", time.Since(began).Round(time.Second).String())
			counts := map[string]int{}
			Eventually(ctx, func(ctx context.Context) (int, error) {
				var err error
				counts, err = finishedIn(ctx, all)
				return total(counts), err
			}).WithTimeout(loadLimit).WithPolling(5 * time.Second).Should(Equal(spaces * sessions * turns))
			took := time.Since(began)
			show(
				"all succeeded after",
				fmt.Sprintf("%s, %.1f Turns a second", took.Round(time.Second), float64(total(counts))/took.Seconds()),
			)
			peak, err := memoryPeak(before)
			Expect(err).NotTo(HaveOccurred())
			show("memory of the container, peak", fmt.Sprintf("%d MiB of %s", peak>>20, limit))
			Expect(settled(ctx)).To(Equal(before), "the manager was started again")
		},
		Entry("of 256 MiB", "256Mi", SpecTimeout(loadLimit)),
		Entry("of 128 MiB", "128Mi", SpecTimeout(loadLimit)),
	)

	It(
		"80 Turns with three Job calls each complete while the manager is killed repeatedly",
		SpecTimeout(loadLimit),
		func(ctx SpecContext) {
			undisturbed := manyJobs(ctx, false)
			disturbed := manyJobs(ctx, true)
			show("without kills, and with", fmt.Sprintf("%s, %s", undisturbed.Round(time.Second), disturbed.Round(time.Second)))
		},
	)
})

// manyJobs runs 80 Turns of two AtMostOnce calls and an Idempotent one over 8 namespaces, and returns how long they
// took.
func manyJobs(ctx context.Context, disturbed bool) time.Duration {
	GinkgoHelper()
	const spaces, turns = 8, 10
	rested(ctx)
	all, ran := make([]string, spaces), make([]*containers, spaces)
	for i := range all {
		all[i] = newStage(ctx, builder.Script("the answer", calls{
			call("pay", arguments{"seconds": 1}), call("send", arguments{"seconds": 1}), call("write", arguments{"seconds": 1}),
		}), patient("pay", v1alpha1.SideEffectAtMostOnce), patient("send", v1alpha1.SideEffectAtMostOnce), patient(
			"write", v1alpha1.SideEffectIdempotent,
		))
		for turn := range turns {
			create(ctx, builder.Session(fmt.Sprintf("s%d", turn)).In(all[i]).Obj())
		}
		ran[i] = watchContainers(ctx, all[i])
	}
	began := time.Now()
	each(ctx, spaces*turns, func(ctx context.Context, i int) error {
		turn := builder.Turn(fmt.Sprintf("t%d", i/spaces)).In(all[i%spaces]).Input("Please.").Obj()
		turn.Spec.SessionRef.Name = fmt.Sprintf("s%d", i/spaces)
		return api.Create(ctx, turn)
	})
	stop := func() int { return 0 }
	if disturbed {
		stop = killRepeatedly(ctx)
	}
	Eventually(ctx, func(ctx context.Context) (int, error) {
		counts, err := finishedIn(ctx, all)
		return total(counts), err
	}).WithTimeout(loadLimit / 2).WithPolling(time.Second).Should(Equal(spaces * turns))
	took := time.Since(began)
	if disturbed {
		show("the manager was killed", fmt.Sprintf("%d times", stop()))
	}
	for i, namespace := range all {
		expectOneStartOfEveryCall(ctx, namespace, ran[i])
		expectNoGaps(ctx, namespace)
	}
	return took
}

// patient is a Tool that sleeps. Its pods may wait long for their start: there are more of them at once than a node
// takes.
func patient(name string, class v1alpha1.SideEffect) *v1alpha1.Tool {
	return startingWithin(loadLimit/2, toolbox(name, "sleep", class))
}

// killRepeatedly deletes the manager's pod without grace every 7 to 16 seconds. The function that it returns ends that,
// and returns how often.
func killRepeatedly(ctx context.Context) (stop func() int) {
	GinkgoHelper()
	seed := uint64(GinkgoRandomSeed())
	random := rand.New(rand.NewPCG(seed, seed))
	ended, done := make(chan struct{}), make(chan struct{})
	kills := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				return
			case <-ctx.Done():
				return
			case <-time.After(time.Duration(7000+random.IntN(9000)) * time.Millisecond):
			}
			pods, err := managerPods(ctx)
			for i := range pods {
				err = errors.Join(err, client.IgnoreNotFound(api.Delete(ctx, &pods[i], client.GracePeriodSeconds(0))))
			}
			if err == nil {
				kills++
			}
		}
	}()
	return sync.OnceValue(func() int {
		close(ended)
		<-done
		return kills
	})
}

// expectOneStartOfEveryCall checks, for the Turns of a namespace, the states of their calls and that no call had two
// containers.
func expectOneStartOfEveryCall(ctx context.Context, namespace string, ran *containers) {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	Expect(api.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
	for i := range turns.Items {
		for _, call := range turns.Items[i].Status.ToolCalls {
			Expect(call.State).To(Equal(v1alpha1.ToolCallStateSucceeded), "%s of %s", call.Name, turns.Items[i].Name)
		}
	}
	ran.mu.Lock()
	defer ran.mu.Unlock()
	for call, started := range ran.byTurn {
		Expect(started).To(HaveLen(1), "call %s in namespace %s", call, namespace)
	}
	Expect(ran.byTurn).To(HaveLen(3 * len(turns.Items)))
}

// expectNoGaps checks that the ordinals of each journal of a namespace follow each other from 1 on.
func expectNoGaps(ctx context.Context, namespace string) {
	GinkgoHelper()
	var list v1alpha1.JournalEntryList
	Expect(api.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	ordinals := map[string][]int64{}
	for _, entry := range list.Items {
		ordinals[entry.Spec.Session] = append(ordinals[entry.Spec.Session], entry.Spec.Ordinal)
	}
	for session, found := range ordinals {
		slices.Sort(found)
		for i, ordinal := range found {
			Expect(ordinal).To(BeEquivalentTo(i+1), "the journal of Session %s/%s has a gap", namespace, session)
		}
	}
}

// finishedIn counts the Turns that have succeeded, by namespace. One that failed ends the spec.
func finishedIn(ctx context.Context, namespaces []string) (map[string]int, error) {
	counts := map[string]int{}
	for _, namespace := range namespaces {
		var turns v1alpha1.TurnList
		if err := api.List(ctx, &turns, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for i := range turns.Items {
			switch conditions := turns.Items[i].Status.Conditions; {
			case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionSucceeded):
				counts[namespace]++
			case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionFinished):
				problem := meta.FindStatusCondition(conditions, v1alpha1.ConditionSucceeded)
				return nil, StopTrying(fmt.Sprintf("Turn %s/%s did not succeed: %v", namespace, turns.Items[i].Name, problem))
			}
		}
	}
	return counts, nil
}

func total(counts map[string]int) int {
	sum := 0
	for _, count := range counts {
		sum += count
	}
	return sum
}

// each calls do for the numbers below n, some at a time.
func each(ctx context.Context, n int, do func(context.Context, int) error) {
	GinkgoHelper()
	problems := make([]error, n)
	workqueue.ParallelizeUntil(ctx, creators, n, func(i int) { problems[i] = do(ctx, i) })
	Expect(errors.Join(problems...)).To(Succeed())
}

// limitMemory gives the manager that much memory for the rest of the spec, an eighth of it beyond what Go aims at.
func limitMemory(ctx context.Context, limit string) {
	GinkgoHelper()
	quantity := resource.MustParse(limit)
	changeManager(ctx, func(spec *corev1.PodSpec) {
		container := managerIn(spec)
		container.Resources = corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: quantity},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: quantity},
		}
		for i := range container.Env {
			if container.Env[i].Name == "GOMEMLIMIT" {
				container.Env[i].Value = strconv.FormatInt(quantity.Value()/8*7, 10)
			}
		}
	})
}

// memoryPeak is the most memory that the manager's container has had, in bytes, as its cgroup counts it.
func memoryPeak(m manager) (int64, error) {
	id, err := m.process()
	if err != nil {
		return 0, err
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", id))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		var file string
		switch {
		case len(fields) != 3:
			continue
		case fields[0] == "0":
			file = filepath.Join("/sys/fs/cgroup", fields[2], "memory.peak")
		case fields[1] == "memory":
			file = filepath.Join("/sys/fs/cgroup/memory", fields[2], "memory.max_usage_in_bytes")
		default:
			continue
		}
		if peak, err := os.ReadFile(file); err == nil {
			return strconv.ParseInt(strings.TrimSpace(string(peak)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no cgroup of process %d reports how much memory it had", id)
}
