package apiserver

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestEveryAddressOfTheAPIServerIsDenied(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.1"}}, {Addresses: []string{"192.0.2.2", "none"}}},
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](6443)}},
	}
	var denied []netip.AddrPort
	p := &Addresses{
		Live:  fake.NewClientBuilder().WithObjects(slice).Build(),
		Hosts: []string{"https://10.96.0.1", "10.96.0.1:443", "https://[fd00::1]:6443", "no port", ""},
		Deny:  func(places []netip.AddrPort) { denied = places },
	}
	if err := p.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(denied); got != "[10.96.0.1:443 192.0.2.1:6443 192.0.2.2:6443 [fd00::1]:6443]" {
		t.Errorf("denied are %s", got)
	}
	p.Live = fake.NewClientBuilder().Build()
	if err := p.Refresh(context.Background()); err == nil || len(denied) != 2 {
		t.Errorf("without the EndpointSlice: %v, denied are %v", err, denied)
	}
}
