//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// needsHere is the failure where a spec does not find the node's processes.
const needsHere = "the spec needs the cluster's node to be this machine, and to be root there; " +
	"leave it out elsewhere with --label-filter '!" + hereLabel + " && !" + loadLabel + "'"

// processesOf are the ids, on this machine, of the processes of a container.
func processesOf(container string) ([]int, error) {
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, path := range groups {
		content, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(content, []byte(container)) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, err
		}
		found = append(found, id)
	}
	return found, nil
}

// firstProcess is the id, on this machine, of the process that is number 1 in a pod's container.
func firstProcess(pod *corev1.Pod, container string) (int, error) {
	status := statusOf(pod, container)
	if status == nil {
		return 0, fmt.Errorf("pod %s has no container %s", pod.Name, container)
	}
	_, id, _ := strings.Cut(status.ContainerID, "://")
	found, err := processesOf(id)
	if err != nil {
		return 0, err
	}
	for _, process := range found {
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process)); err == nil && firstInside(string(status)) {
			return process, nil
		}
	}
	return 0, fmt.Errorf(
		"none of the processes %v is the first one of container %s in pod %s: %s",
		found,
		id,
		pod.Name,
		needsHere,
	)
}

// firstInside reports whether a process is number 1 of the innermost process namespace that it is in.
func firstInside(status string) bool {
	for line := range strings.Lines(status) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			fields := strings.Fields(ids)
			return len(fields) > 1 && fields[len(fields)-1] == "1"
		}
	}
	return false
}

// clusterState is the directory in which hack/cluster keeps the state of the cluster.
func clusterState() string {
	return filepath.Dir(os.Getenv("KUBECONFIG"))
}

// podLogs is the directory of the node that has the logs of a pod.
func podLogs(pod *corev1.Pod) string {
	return filepath.Join(clusterState(), "pod-logs", fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID))
}

// stopKubelet stops the kubelet as if its node were gone: it reports nothing any more, and its containers go on. The
// function that it returns, and the end of the spec, let it continue.
func stopKubelet() (goOn func()) {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(clusterState(), "pids", "kubelet.pid"))
	Expect(err).NotTo(HaveOccurred(), needsHere)
	id, err := strconv.Atoi(strings.Fields(string(content))[0])
	Expect(err).NotTo(HaveOccurred())
	goOn = func() {
		GinkgoHelper()
		Expect(syscall.Kill(id, syscall.SIGCONT)).To(Succeed())
	}
	DeferCleanup(goOn)
	Expect(syscall.Kill(id, syscall.SIGSTOP)).To(Succeed())
	return goOn
}
