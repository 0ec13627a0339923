package attacks_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/controller/servicepods"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// nodeAddress is the address of the node of all pods here, and servers that of the servers of pods.
	nodeAddress = "192.0.2.1"
	podAddress  = "127.0.0.1"
)

// cluster is a cluster with servers behind Services of a namespace "owner", and an API server at the address of a pod.
type cluster struct {
	*network
	// server is behind Services of the owner, and of the other tenant; it responds with a text that only they may see.
	server, apiServer *httptest.Server
	objects           []client.Object
	// live reads the objects, once all of them are added.
	live func() client.Client
}

// owner is the namespace whose Service the attacker is after, and shared one with a Service that the operator lets the
// other tenant reach.
const owner, shared = "owner", "shared"

func newCluster(t *testing.T) *cluster {
	c := &cluster{network: newNetwork(t)}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "models."+bystander+".svc") || strings.HasPrefix(r.Host, "models."+shared+".svc") {
			fmt.Fprint(w, "fine")
			return
		}
		c.intruders.Add(1)
		fmt.Fprint(w, internalPage)
	}))
	t.Cleanup(c.server.Close)
	c.apiServer = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c.intruders.Add(1)
		fmt.Fprint(w, internalPage)
	}))
	t.Cleanup(c.apiServer.Close)
	port := portOf(c.server)
	for _, namespace := range []string{owner, bystander, shared} {
		c.add(service(namespace, "models", port, nil), podAt(namespace, "models", podAddress, port, nil))
	}
	c.live = sync.OnceValue(func() client.Client {
		return fake.NewClientBuilder().WithObjects(c.objects...).
			WithIndex(&corev1.Pod{}, "status.phase", func(o client.Object) []string {
				pod, ok := o.(*corev1.Pod)
				if !ok {
					return nil
				}
				return []string{string(pod.Status.Phase)}
			}).Build()
	})
	return c
}

func portOf(s *httptest.Server) int32 {
	return int32(netip.MustParseAddrPort(s.Listener.Addr().String()).Port())
}

func (c *cluster) add(objects ...client.Object) { c.objects = append(c.objects, objects...) }

// service is a Service of the pods with its name as their label, at port 80.
func service(namespace, name string, target int32, change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(target)}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// podAt is a pod that is Ready and has an address.
func podAt(namespace, name, address string, port int32, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name + "-0", UID: types.UID(namespace + name), Labels: map[string]string{"app": name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "c", Ports: []corev1.ContainerPort{{ContainerPort: port}},
		}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: nodeAddress, HostIPs: []corev1.HostIP{{IP: nodeAddress}},
			PodIPs:     []corev1.PodIP{{IP: address}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// client is the manager's, which reads the cluster as it is now. Pods at 127.0.0.1 stand for those with addresses of
// the cluster.
func (c *cluster) client(resolver egress.Resolver, policy *egress.Policy, allowed ...string) *egress.Client {
	options := egress.Options{
		Roots: c.roots, Resolver: resolver, ConnectTimeout: fetchTimeout, HeaderTimeout: fetchTimeout,
	}
	for _, prefix := range allowed {
		options.Allow = append(options.Allow, netip.MustParsePrefix(prefix))
	}
	made := egress.New(options)
	made.UseServices(servicepods.Finder{Live: c.live()})
	made.Deny([]netip.AddrPort{netip.MustParseAddrPort(c.apiServer.Listener.Addr().String())})
	made.SetPolicy(policy)
	return made
}

// ask sends a request for a namespace to a Service of it, and then to where that redirects.
func ask(ctx context.Context, c *egress.Client, namespace, name, path string) string {
	to := egress.Service{Namespace: namespace, Name: name, Port: 80}
	return send(ctx, c, egress.Route{Namespace: namespace, Service: &to}, to.URL("http", path))
}

// send sends a request for a namespace.
func send(ctx context.Context, c *egress.Client, route egress.Route, address string) string {
	response, err := c.Do(ctx, egress.Request{
		Method: http.MethodGet, URL: address, Route: route, Timeout: fetchTimeout, MaxBody: 1 << 20,
	})
	if err != nil {
		return shown("", err)
	}
	return string(response.Body)
}

// podNetwork permits the pods of this machine.
const podNetwork = podAddress + "/32"

// services are attempts by what a tenant may create in its own namespace.
func services(t *testing.T) subject {
	c := newCluster(t)
	port := portOf(c.server)
	try := func(name, want string, objects ...client.Object) attempt {
		c.add(objects...)
		return attempt{name: name, want: want, run: func(ctx context.Context) string {
			return ask(ctx, c.client(nil, nil, podNetwork), attacker, objects[0].GetName(), "/")
		}}
	}
	pod := func(name, want, address string, change func(*corev1.Pod)) attempt {
		id := strings.NewReplacer(" ", "-", ",", "").Replace(strings.ToLower(name))
		return try(name, want, service(attacker, id, port, nil), podAt(attacker, id, address, port, change))
	}
	external := func(id, name string) *corev1.Service {
		return service(attacker, id, port, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, name
		})
	}
	const notReady, notAllowed = "has no pod that is Ready", "have no allowed address"
	noSelector := service(attacker, "without-selector", port, func(s *corev1.Service) { s.Spec.Selector = nil })
	return subject{
		name: "Services of a namespace",
		classes: []class{
			{name: "Services that name another server", refused: true, attempts: []attempt{
				try("the name of a Service of another namespace", notReady, service(attacker, "models", port, nil)),
				try("an ExternalName of the other namespace", "type ExternalName",
					external("external", "models."+owner+".svc.cluster.local")),
				try("an ExternalName of the API server", "type ExternalName",
					external("external-api", "kubernetes.default.svc")),
				try("no selector, and an EndpointSlice", "no selector", noSelector,
					forged(noSelector, podAddress, port)),
				try("a selector of no pod, and an EndpointSlice", notReady, service(attacker, "forged", port, nil),
					forged(service(attacker, "forged", port, nil), podAddress, port)),
			}},
			{name: "addresses in a Service", refused: true, attempts: []attempt{
				try("external addresses", notReady, service(attacker, "addresses", port, func(s *corev1.Service) {
					s.Spec.ExternalIPs, s.Spec.ClusterIP = []string{podAddress}, podAddress
				})),
				try("an address of a load balancer", notReady, service(attacker, "balanced", port, func(s *corev1.Service) {
					s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: podAddress, Hostname: "localhost"}}
				})),
				try("a protocol other than TCP", "no TCP port", service(attacker, "udp", port, func(s *corev1.Service) {
					s.Spec.Ports[0].Protocol = corev1.ProtocolUDP
				})),
			}},
			{name: "pods that are not the tenant's alone", refused: true, attempts: []attempt{
				pod("on the network of the node", notReady, podAddress, func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
				pod("with the address of its node", notReady, nodeAddress, nil),
				pod("with a second address of its node", notReady, podAddress, func(p *corev1.Pod) {
					p.Status.HostIPs = append(p.Status.HostIPs, corev1.HostIP{IP: podAddress})
				}),
				pod("that is going", notReady, podAddress, func(p *corev1.Pod) {
					p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"example.org/stay"}
				}),
				pod("with the address of another Ready pod, itself not Ready", notReady, podAddress,
					func(p *corev1.Pod) { p.Status.Conditions = nil }),
			}},
			{name: "addresses that no pod has", refused: true, attempts: []attempt{
				try("the API server's", notAllowed, service(attacker, "api", portOf(c.apiServer), nil),
					podAt(attacker, "api", podAddress, portOf(c.apiServer), nil)),
				try("the API server's, in IPv6", notAllowed, service(attacker, "api6", portOf(c.apiServer), nil),
					podAt(attacker, "api6", "::ffff:"+podAddress, portOf(c.apiServer), nil)),
				pod("of the metadata of clouds", notAllowed, "169.254.169.254", nil),
				pod("of this host", notAllowed, "127.0.0.2", nil),
				pod("of this host in IPv6", notAllowed, "::1", nil),
			}},
			c.byName(),
			c.redirected(t),
		},
		after: c.untouched,
		other: c.another,
	}
}

// another is what the other tenant does: it asks the server of its own namespace.
func (c *cluster) another(ctx context.Context) error {
	seen := ask(ctx, c.client(nil, nil, podNetwork), bystander, "models", "/")
	if seen != "fine" {
		return errors.New(seen)
	}
	return nil
}

// forged is an EndpointSlice that lets an address stand behind a Service.
func forged(of *corev1.Service, address string, port int32) *discoveryv1.EndpointSlice {
	ready, name := true, ""
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: of.Name, Labels: map[string]string{discoveryv1.LabelServiceName: of.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
		Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
	}
}

// byName are URLs with the names of a Service of another namespace, whose addresses the attacker lets resolve.
func (c *cluster) byName() class {
	port := strconv.Itoa(int(portOf(c.server)))
	try := func(name, address string) attempt {
		return attempt{name: name, run: func(ctx context.Context) string {
			turned := &turning{[][]string{{"203.0.113.7", "127.0.0.2", "10.0.0.7"}, {"127.0.0.2"}}}
			own := egress.Service{Namespace: attacker, Name: "models", Port: 80}
			return send(ctx, c.client(turned, nil), egress.Route{Namespace: attacker, Service: &own}, address)
		}}
	}
	return class{name: "names of other Services", refused: true, attempts: []attempt{
		try("the short one", "http://models."+owner+".svc/"), try("the long one", "https://models."+owner+
			".svc.cluster.local:"+port+"/"),
		try("with a dot", "https://models."+owner+".svc.:"+port+"/"),
		try("in capitals", "http://MODELS."+strings.ToUpper(owner)+".SVC/"),
		try("of a pod", "https://127-0-0-2."+owner+".pod.cluster.local:"+port+"/"),
	}}
}

// redirected are redirects by a server of the attacker's own namespace.
func (c *cluster) redirected(t *testing.T) class {
	all := class{name: "redirects by a pod of one's own", refused: true}
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", c.ports(r.URL.Query().Get("to")))
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	t.Cleanup(own.Close)
	c.add(service(attacker, "redirecting", portOf(own), nil), podAt(attacker, "redirecting", podAddress, portOf(own), nil))
	for _, to := range []struct{ name, to string }{
		{"to a Service of another namespace", "http://models." + owner + ".svc/"},
		{"to another Service of its own", "http://models." + attacker + ".svc/"},
		{"to the API server", "http://" + c.apiServer.Listener.Addr().String() + "/api"},
		{"to metadata", "http://169.254.169.254/latest/meta-data"},
		{"to the internal server", "https://INSIDE/"},
	} {
		path := "/?to=" + to.to
		all.attempts = append(all.attempts, attempt{name: to.name, run: func(ctx context.Context) string {
			return ask(ctx, c.client(nil, nil, podNetwork), attacker, "redirecting", path)
		}})
	}
	return all
}
