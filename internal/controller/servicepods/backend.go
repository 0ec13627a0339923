package servicepods

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// portOf returns the port of a Service that has a number, or why no connection can be made to it.
func portOf(service *corev1.Service, number int32) (*corev1.ServicePort, *egress.Error) {
	switch {
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return nil, egress.NewServiceError(true,
			"Service %q has the type ExternalName, which is not followed: use the url of its server", service.Name)
	case len(service.Spec.Selector) == 0:
		return nil, egress.NewServiceError(true,
			"Service %q has no selector: only Services that select pods of their namespace are reached", service.Name)
	}
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Port == number && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) {
			return port, nil
		}
	}
	return nil, egress.NewServiceError(true, "Service %q has no TCP port %d", service.Name, number)
}

// serves reports whether connections may be made to a pod that a selector is for.
func serves(pod *corev1.Pod, selector map[string]string) bool {
	return labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)) && len(selector) > 0 &&
		!pod.Spec.HostNetwork && pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning &&
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
}

// addresses are those of a pod, without those of its node.
func addresses(pod *corev1.Pod) []netip.Addr {
	var found []netip.Addr
	for _, ip := range pod.Status.PodIPs {
		address, err := netip.ParseAddr(ip.IP)
		if err != nil || ip.IP == pod.Status.HostIP ||
			slices.ContainsFunc(pod.Status.HostIPs, func(h corev1.HostIP) bool { return h.IP == ip.IP }) {
			continue
		}
		found = append(found, address.Unmap())
	}
	return found
}

// targetPort is the port of a pod that a port of a Service stands for.
func targetPort(pod *corev1.Pod, port *corev1.ServicePort) (uint16, bool) {
	number := port.TargetPort.IntVal
	if port.TargetPort.Type == intstr.String {
		number = containerPort(pod, port.TargetPort.StrVal)
	} else if number == 0 {
		number = port.Port
	}
	return uint16(number), number > 0 && number <= 65535
}

// containerPort is the TCP port of a name in the containers of a pod that run beside each other; 0 for none.
func containerPort(pod *corev1.Pod, name string) int32 {
	containers := slices.Clone(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			containers = append(containers, c)
		}
	}
	for _, c := range containers {
		for _, port := range c.Ports {
			if port.Name == name && (port.Protocol == "" || port.Protocol == corev1.ProtocolTCP) {
				return port.ContainerPort
			}
		}
	}
	return 0
}

// backendsOf are the ways to a pod that serves a port of a Service; none if it does not.
func backendsOf(pod *corev1.Pod, service *corev1.Service, port *corev1.ServicePort) []egress.Backend {
	number, ok := targetPort(pod, port)
	if !ok || !serves(pod, service.Spec.Selector) {
		return nil
	}
	var found []egress.Backend
	for _, address := range addresses(pod) {
		found = append(found, egress.Backend{
			Pod: pod.Name, UID: string(pod.UID), Address: netip.AddrPortFrom(address, number),
			Selector: service.Spec.Selector,
		})
	}
	return found
}

// still reports whether all that made a pod a Backend still holds.
func still(pod *corev1.Pod, b egress.Backend) bool {
	return string(pod.UID) == b.UID && serves(pod, b.Selector) &&
		slices.Contains(addresses(pod), b.Address.Addr().Unmap())
}
