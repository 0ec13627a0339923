// Package policyfile reads the file in which the operator permits destinations for namespaces.
package policyfile

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

const (
	// APIVersion is that of the file.
	APIVersion = "manager.capstan.dev/v1alpha1"
	// Kind is that of the file.
	Kind = "EgressPolicy"
	// MaxBytes is the maximum size of a file.
	MaxBytes = 1 << 20
	// maxRules and maxItems bound a file.
	maxRules, maxItems = 1000, 1000
)

// The values of plainHTTP.
const (
	plainAllowed = "Allowed"
	plainDenied  = "Denied"
)

// policy is the content of a file.
type policy struct {
	metav1.TypeMeta `json:",inline"`

	Rules []rule `json:"rules"`
}

// rule permits destinations for namespaces.
type rule struct {
	Namespaces []string  `json:"namespaces"`
	Services   []service `json:"services"`
	CIDRs      []cidr    `json:"cidrs"`
	PlainHTTP  string    `json:"plainHTTP"`
	CABundle   string    `json:"caBundle"`
}

// service is a Service and its ports.
type service struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Ports     []uint16 `json:"ports"`
}

// cidr is a range of addresses and the ports of each.
type cidr struct {
	CIDR  string   `json:"cidr"`
	Ports []uint16 `json:"ports"`
}

// Parse reads a file. Fields that it does not know are errors: a rule with a misspelled field would permit more than
// its author meant, or less.
func Parse(raw []byte) (*egress.Policy, error) {
	if len(raw) > MaxBytes {
		return nil, fmt.Errorf("the file has %d bytes; the maximum is %d", len(raw), MaxBytes)
	}
	var content policy
	if err := decode(raw, &content); err != nil {
		return nil, err
	}
	if content.APIVersion != APIVersion || content.Kind != Kind {
		return nil, fmt.Errorf("apiVersion %q, kind %q: must be %s, %s", content.APIVersion, content.Kind, APIVersion, Kind)
	}
	if len(content.Rules) > maxRules {
		return nil, fmt.Errorf("rules: %d rules; the maximum is %d", len(content.Rules), maxRules)
	}
	p := &egress.Policy{}
	var problems []error
	for i, r := range content.Rules {
		made, err := r.parse()
		if err != nil {
			problems = append(problems, fmt.Errorf("rules[%d]: %w", i, err))
		}
		p.Rules = append(p.Rules, made)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return p, nil
}

// decode reads YAML without unknown or repeated fields, with case.
func decode(raw []byte, into *policy) error {
	document, err := yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(document, into)
	return errors.Join(append(strict, err)...)
}

func (r rule) parse() (egress.Rule, error) {
	made := egress.Rule{Namespaces: r.Namespaces}
	switch {
	case len(r.Namespaces) == 0:
		return made, fmt.Errorf("namespaces: name at least one namespace, or %q for all", egress.EveryNamespace)
	case len(r.Services)+len(r.CIDRs) == 0:
		return made, errors.New("name at least one of services and cidrs")
	case len(r.Namespaces)+len(r.Services)+len(r.CIDRs) > maxItems:
		return made, fmt.Errorf("more than %d namespaces, services and cidrs", maxItems)
	}
	for _, name := range r.Namespaces {
		if why := validation.IsDNS1123Label(name); name != egress.EveryNamespace && len(why) > 0 {
			return made, fmt.Errorf("namespaces: %q: %s", name, strings.Join(why, "; "))
		}
	}
	switch r.PlainHTTP {
	case plainAllowed:
		made.PlainHTTP = true
	case "", plainDenied:
	default:
		return made, fmt.Errorf("plainHTTP: %q: must be %s or %s", r.PlainHTTP, plainAllowed, plainDenied)
	}
	if r.CABundle != "" {
		made.Roots = x509.NewCertPool()
		if !made.Roots.AppendCertsFromPEM([]byte(r.CABundle)) {
			return made, errors.New("caBundle: no certificate in PEM form")
		}
	}
	return made, errors.Join(r.parseServices(&made), r.parseRanges(&made))
}

func (r rule) parseServices(made *egress.Rule) error {
	for i, s := range r.Services {
		at := fmt.Sprintf("services[%d]", i)
		if why := validation.IsDNS1123Label(s.Namespace); len(why) > 0 {
			return fmt.Errorf("%s.namespace: %q: %s", at, s.Namespace, strings.Join(why, "; "))
		}
		if why := validation.IsDNS1035Label(s.Name); len(why) > 0 {
			return fmt.Errorf("%s.name: %q: %s", at, s.Name, strings.Join(why, "; "))
		}
		if err := checkPorts(at, s.Ports); err != nil {
			return err
		}
		made.Services = append(made.Services, egress.ServiceRule{Namespace: s.Namespace, Name: s.Name, Ports: s.Ports})
	}
	return nil
}

func (r rule) parseRanges(made *egress.Rule) error {
	for i, c := range r.CIDRs {
		at := fmt.Sprintf("cidrs[%d]", i)
		prefix, err := netip.ParsePrefix(c.CIDR)
		switch {
		case err != nil || prefix.Addr().Is4In6():
			return fmt.Errorf("%s.cidr: %q: must be a range of addresses such as 10.20.0.0/16 or fd00:20::/64", at, c.CIDR)
		case prefix != prefix.Masked():
			return fmt.Errorf("%s.cidr: %q: host bits are set; did you mean %s?", at, c.CIDR, prefix.Masked())
		case egress.Never(prefix):
			return fmt.Errorf("%s.cidr: %q: addresses of the host, of the link and of metadata services are never reached",
				at, c.CIDR)
		}
		if err := checkPorts(at, c.Ports); err != nil {
			return err
		}
		made.Ranges = append(made.Ranges, egress.RangeRule{Prefix: prefix, Ports: c.Ports})
	}
	return nil
}

// checkPorts returns why ports cannot be those of a destination.
func checkPorts(at string, ports []uint16) error {
	if len(ports) == 0 || len(ports) > 100 {
		return fmt.Errorf("%s.ports: name 1 to 100 ports", at)
	}
	for _, port := range ports {
		if port == 0 {
			return fmt.Errorf("%s.ports: invalid port 0", at)
		}
	}
	return nil
}
