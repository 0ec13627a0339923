package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestTheNamespacesToWatch(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"all of them":    {nil, nil, ""},
		"one":            {[]string{"--watch-namespaces=a"}, []string{"a"}, ""},
		"a list":         {[]string{"--watch-namespaces=a, b,a"}, []string{"a", "b"}, ""},
		"several lists":  {[]string{"--watch-namespaces=a", "--watch-namespaces=b"}, []string{"a", "b"}, ""},
		"an empty list":  {[]string{"--watch-namespaces="}, nil, `invalid namespace name ""`},
		"an empty entry": {[]string{"--watch-namespaces=a,"}, nil, `invalid namespace name ""`},
		"a wildcard":     {[]string{"--watch-namespaces=*"}, nil, `invalid namespace name "*"`},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append(test.args, "--launcher-image=example.org/launcher:1"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("the error is %v, want one with %q", err, test.err)
				}
				return
			}
			if err != nil || !slices.Equal(o.namespaces, test.want) {
				t.Errorf("the namespaces are %q, error %v; want %q", o.namespaces, err, test.want)
			}
		})
	}
}

func TestTheRangesThatToolsMayReach(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
		err  string
	}{
		"none": {nil, nil, ""},
		"one":  {[]string{"--egress-allow-cidr=10.96.0.0/12"}, []string{"10.96.0.0/12"}, ""},
		"several": {
			[]string{"--egress-allow-cidr=10.96.0.0/12", "--egress-allow-cidr=fd00:10::/64"},
			[]string{"10.96.0.0/12", "fd00:10::/64"},
			"",
		},
		"a list": {
			[]string{"--egress-allow-cidr=10.0.0.0/8,fd00::/8"},
			nil,
			`invalid CIDR "10.0.0.0/8,fd00::/8": must be a range of addresses`,
		},
		"an address": {
			[]string{"--egress-allow-cidr=10.0.0.1"}, nil, `invalid CIDR "10.0.0.1": must be a range of addresses`,
		},
		"an address in a range": {[]string{"--egress-allow-cidr=10.0.0.1/8"}, nil, "did you mean 10.0.0.0/8?"},
		"IPv4 within IPv6":      {[]string{"--egress-allow-cidr=::ffff:10.0.0.0/104"}, nil, "must be a range of addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append(test.args, "--launcher-image=example.org/launcher:1"))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("the error is %v, want one with %q", err, test.err)
				}
				return
			}
			var want []netip.Prefix
			for _, cidr := range test.want {
				want = append(want, netip.MustParsePrefix(cidr))
			}
			if err != nil || !slices.Equal(o.egressAllow, want) || o.controllers.Egress == nil {
				t.Errorf("the ranges are %v, error %v; want %v", o.egressAllow, err, want)
			}
		})
	}
}

func TestTheClassesOfToolPods(t *testing.T) {
	o, err := parse(
		[]string{
			"--launcher-image=i",
			"--tool-runtime-class=gvisor",
			"--tool-user-namespaces",
			"--tool-priority-class=agents",
		},
	)
	l := o.controllers.Launcher
	if err != nil || l.RuntimeClass != "gvisor" || !l.UserNamespaces || l.PriorityClass != "agents" {
		t.Errorf("the launcher is %+v, error %v", l, err)
	}
	for _, flag := range []string{
		"--tool-runtime-class=A b", "--tool-priority-class=A b", "--tool-priority-class=system-node-critical",
	} {
		name, _, _ := strings.Cut(flag, "=")
		if _, err := parse([]string{"--launcher-image=i", flag}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s gives the error %v", flag, err)
		}
	}
}

func TestATenthOfTheRequestsMayShowProgress(t *testing.T) {
	o, err := parse([]string{"--launcher-image=l", "--kube-api-qps=1", "--kube-api-burst=80"})
	if err != nil {
		t.Fatal(err)
	}
	config := &rest.Config{}
	o.limit(config)
	granted := 0
	for range 100 {
		if o.controllers.Progress.Request("ns", nil).Granted() {
			granted++
		}
	}
	if granted != 7 || config.QPS != -1 || config.WrapTransport == nil {
		t.Errorf("a namespace may show progress with %d of 80 requests at once, want all but an eighth of 8", granted)
	}
}

// TestTheVersionNeedsNoOtherFlag parses what a user types to learn the version: required flags are not asked for.
func TestTheVersionNeedsNoOtherFlag(t *testing.T) {
	o, err := parse([]string{"--version"})
	if err != nil {
		t.Fatal(err)
	}
	if !o.version {
		t.Error("--version is not recognized")
	}
}
