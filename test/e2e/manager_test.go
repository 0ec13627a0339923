//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	managerNamespace  = "capstan-system"
	managerDeployment = "capstan-manager"
	managerAccount    = "capstan-manager"
	managerContainer  = "manager"
	managerLease      = "manager.capstan.dev"
)

// manager is one process of the manager.
type manager struct {
	pod       types.NamespacedName
	podUID    types.UID
	container string
}

// managerPods are the pods of the manager, whatever their state.
func managerPods(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := api.List(
		ctx,
		&pods,
		client.InNamespace(managerNamespace),
		client.MatchingLabels{"app.kubernetes.io/component": "manager"},
	)
	return pods.Items, err
}

// leadingManager is the manager that leads, once it is the only one and holds the lease.
func leadingManager(ctx context.Context) (manager, error) {
	deployment := &appsv1.Deployment{}
	if err := api.Get(
		ctx,
		types.NamespacedName{Namespace: managerNamespace, Name: managerDeployment},
		deployment,
	); err != nil {
		return manager{}, err
	}
	if s := deployment.Status; s.ObservedGeneration != deployment.Generation || s.UpdatedReplicas != 1 ||
		s.AvailableReplicas != 1 ||
		s.Replicas != 1 {
		return manager{}, fmt.Errorf(
			"the Deployment %s has %d pods, %d of them new and %d available",
			managerDeployment,
			s.Replicas,
			s.UpdatedReplicas,
			s.AvailableReplicas,
		)
	}
	pods, err := managerPods(ctx)
	if err != nil {
		return manager{}, err
	}
	if len(pods) != 1 {
		return manager{}, fmt.Errorf("there are %d pods of the manager", len(pods))
	}
	pod := pods[0]
	lease := &coordinationv1.Lease{}
	if err := api.Get(ctx, types.NamespacedName{Namespace: managerNamespace, Name: managerLease}, lease); err != nil {
		return manager{}, err
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder = *lease.Spec.HolderIdentity
	}
	status := statusOf(&pod, managerContainer)
	switch {
	case status == nil || status.State.Running == nil:
		return manager{}, fmt.Errorf("the manager's container in pod %s does not run", pod.Name)
	case !strings.HasPrefix(holder, pod.Name+"_"):
		return manager{}, fmt.Errorf("the lease is held by %q, not by pod %s", holder, pod.Name)
	case lease.Spec.AcquireTime == nil || lease.Spec.AcquireTime.Time.Before(status.State.Running.StartedAt.Time):
		return manager{}, fmt.Errorf("the lease is still that of the process before in pod %s", pod.Name)
	}
	_, id, _ := strings.Cut(status.ContainerID, "://")
	return manager{pod: client.ObjectKeyFromObject(&pod), podUID: pod.UID, container: id}, nil
}

func statusOf(pod *corev1.Pod, container string) *corev1.ContainerStatus {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	if i < 0 {
		return nil
	}
	return &pod.Status.ContainerStatuses[i]
}

// settled waits until one manager leads and is alone.
func settled(ctx context.Context) manager {
	GinkgoHelper()
	var found manager
	Eventually(ctx, func(ctx context.Context) (err error) {
		found, err = leadingManager(ctx)
		return err
	}).Should(Succeed(), "one manager must lead; hack/e2e.sh deploys it")
	return found
}

// mustBeAlone fails a spec that other specs may run beside: what it does to the manager would disturb them.
func mustBeAlone() {
	GinkgoHelper()
	Expect(CurrentSpecReport().Labels()).To(ContainElement("alone"), "decorate the spec with alone")
}

// rested makes sure that the manager's pod is a fresh one: the kubelet starts a container that died again and again
// later each time, which is not what the specs are about.
func rested(ctx context.Context) {
	GinkgoHelper()
	mustBeAlone()
	tired := settled(ctx)
	pod := &corev1.Pod{}
	Expect(api.Get(ctx, tired.pod, pod)).To(Succeed())
	if statusOf(pod, managerContainer).RestartCount == 0 {
		return
	}
	Expect(api.Delete(ctx, pod)).To(Succeed())
	Eventually(ctx, func(ctx context.Context) (types.UID, error) {
		fresh, err := leadingManager(ctx)
		return fresh.podUID, err
	}).Should(And(Not(BeEmpty()), Not(Equal(tired.podUID))))
}

// process is the id of the manager's process on this machine. The processes that wait for scripts of hooks end with it.
func (m manager) process() (int, error) {
	pod := &corev1.Pod{}
	if err := api.Get(context.Background(), m.pod, pod); err != nil {
		return 0, err
	}
	return firstProcess(pod, managerContainer)
}

// death is a way to end a manager. It is prepared beforehand, so that it strikes at once; survived then returns an
// error when the manager is not dead.
type death func(ctx context.Context, m manager) (strike func() error, survived func(context.Context) error)

// killed ends the manager's process without warning, as a node that fails or the kernel would. It does not release its
// Lease.
func killed(_ context.Context, m manager) (strike func() error, survived func(context.Context) error) {
	GinkgoHelper()
	id, err := m.process()
	Expect(err).NotTo(HaveOccurred())
	strike = func() error { return syscall.Kill(id, syscall.SIGKILL) }
	survived = func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := api.Get(ctx, m.pod, pod); err != nil {
			return err
		}
		status := statusOf(pod, managerContainer)
		if status == nil || strings.HasSuffix(status.ContainerID, m.container) {
			return errors.New("the container of the manager was not started again")
		}
		return nil
	}
	return strike, survived
}

// deleted takes the manager's pod away as `kubectl delete pod --grace-period=0 --force` does.
func deleted(ctx context.Context, m manager) (strike func() error, survived func(context.Context) error) {
	strike = func() error {
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = m.pod.Namespace, m.pod.Name
		return api.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &m.podUID})
	}
	survived = func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := api.Get(ctx, m.pod, pod)
		if err == nil {
			return errors.New("the pod of the manager is still there")
		}
		return client.IgnoreNotFound(err)
	}
	return strike, survived
}

// runManagerWith starts the manager again with other arguments for the rest of the spec.
func runManagerWith(ctx context.Context, extra ...string) {
	GinkgoHelper()
	changeManager(ctx, func(spec *corev1.PodSpec) {
		container := managerIn(spec)
		container.Args = append(container.Args, extra...)
	})
}

// changeManager starts the manager again with another pod for the rest of the spec.
func changeManager(ctx context.Context, change func(*corev1.PodSpec)) {
	GinkgoHelper()
	mustBeAlone()
	key := types.NamespacedName{Namespace: managerNamespace, Name: managerDeployment}
	set := func(ctx context.Context, change func(*corev1.PodSpec)) {
		GinkgoHelper()
		deployment := &appsv1.Deployment{}
		Expect(api.Get(ctx, key, deployment)).To(Succeed())
		base := deployment.DeepCopy()
		change(&deployment.Spec.Template.Spec)
		Expect(api.Patch(ctx, deployment, client.MergeFrom(base))).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (bool, error) {
			err := api.Get(ctx, key, deployment)
			return deployment.Status.ObservedGeneration >= deployment.Generation &&
				deployment.Status.UpdatedReplicas == deployment.Status.Replicas, err
		}).WithTimeout(rolloutLimit).Should(BeTrue(), "the manager must be rolled out")
		settled(ctx)
	}
	deployment := &appsv1.Deployment{}
	Expect(api.Get(ctx, key, deployment)).To(Succeed())
	before := deployment.Spec.Template.Spec
	DeferCleanup(func(ctx SpecContext) {
		set(ctx, func(spec *corev1.PodSpec) { *spec = before })
	}, NodeTimeout(rolloutLimit+patience))
	set(ctx, change)
}

// rolloutLimit bounds a rollout. A new manager is ready once its caches are filled: beside a gigabyte of queued
// messages it takes 80 s on two processors.
const rolloutLimit = 3 * time.Minute

// managerIn is the manager's container in its pod.
func managerIn(spec *corev1.PodSpec) *corev1.Container {
	GinkgoHelper()
	i := slices.IndexFunc(spec.Containers, func(c corev1.Container) bool { return c.Name == managerContainer })
	Expect(i).To(BeNumerically(">=", 0))
	return &spec.Containers[i]
}

// replicated runs a second replica of the manager for the rest of the spec, and returns the name of its pod.
func replicated(ctx context.Context, leader manager) (follower string) {
	GinkgoHelper()
	mustBeAlone()
	scale := func(ctx context.Context, n int32) {
		GinkgoHelper()
		deployment := &appsv1.Deployment{}
		deployment.Namespace, deployment.Name = managerNamespace, managerDeployment
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n))
		Expect(api.Patch(ctx, deployment, patch)).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (int32, error) {
			err := api.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
			return deployment.Status.AvailableReplicas, err
		}).Should(Equal(n))
	}
	DeferCleanup(func(ctx SpecContext) {
		scale(ctx, 1)
		settled(ctx)
	}, NodeTimeout(crashLimit))
	scale(ctx, 2)
	pods, err := managerPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Name != leader.pod.Name })
	Expect(i).To(BeNumerically(">=", 0))
	return pods[i].Name
}

// absent stops the manager, waits until it is gone, and returns a function that brings it back.
func absent(ctx context.Context) (comeBack func()) {
	GinkgoHelper()
	mustBeAlone()
	scale := func(ctx context.Context, replicas int32) {
		GinkgoHelper()
		deployment := &appsv1.Deployment{}
		deployment.Namespace, deployment.Name = managerNamespace, managerDeployment
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
		Expect(api.Patch(ctx, deployment, patch)).To(Succeed())
	}
	DeferCleanup(func(ctx SpecContext) {
		scale(ctx, 1)
		settled(ctx)
	}, NodeTimeout(specLimit))
	scale(ctx, 0)
	Eventually(ctx, managerPods).Should(BeEmpty())
	return func() { scale(ctx, 1) }
}
