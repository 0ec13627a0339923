package policyfile

import (
	"strings"
	"testing"
)

const head = "apiVersion: manager.capstan.dev/v1alpha1\nkind: EgressPolicy\n"

func TestAFileIsRead(t *testing.T) {
	p, err := Parse([]byte(head + `rules:
- namespaces: [team-a, team-b]
  services:
  - {namespace: models, name: vllm, ports: [8000, 8443]}
  plainHTTP: Allowed
- namespaces: ["*"]
  cidrs:
  - {cidr: 10.20.0.0/16, ports: [443]}
  - {cidr: "fd00:20::/64", ports: [443]}
`))
	if err != nil || len(p.Rules) != 2 {
		t.Fatalf("%+v, %v", p, err)
	}
	first, second := p.Rules[0], p.Rules[1]
	if !first.PlainHTTP || second.PlainHTTP || len(first.Services) != 1 || len(second.Ranges) != 2 ||
		first.Services[0].Ports[1] != 8443 || second.Ranges[0].Prefix.String() != "10.20.0.0/16" {
		t.Errorf("%+v", p)
	}
	if p, err := Parse([]byte(head)); err != nil || len(p.Rules) != 0 {
		t.Errorf("without rules: %+v, %v", p, err)
	}
}

func TestAnInvalidFileIsRefusedWithThePlaceOfTheProblem(t *testing.T) {
	const cidrs = "cidrs: [{cidr: 10.0.0.0/8, ports: [443]}]"
	rule := func(fields string) string { return head + "rules:\n- {" + fields + "}\n" }
	for text, want := range map[string]string{
		"":     "must be manager.capstan.dev/v1alpha1, EgressPolicy",
		"a: b": "unknown field",
		"apiVersion: manager.capstan.dev/v1\nkind: EgressPolicy": "must be manager.capstan.dev/v1alpha1",
		head + "rulez: []":                                       "unknown field",
		head + "rules: []\nrules: []":                            "already set",
		rule("namespaces: [a], plainHttp: Allowed, " + cidrs):    "unknown field",
		rule("namespaces: [a], plainHTTP: true, " + cidrs):       "plainHTTP",
		rule("namespaces: [a], plainHTTP: yes please, " + cidrs): "rules[0]: plainHTTP",

		rule(cidrs): "rules[0]: namespaces",

		rule("namespaces: [A_b], " + cidrs): `rules[0]: namespaces: "A_b"`,

		rule("namespaces: [a]"): "services and cidrs",

		rule("namespaces: [a], cidrs: [{cidr: 10.0.0.0/8}]"):                               "rules[0]: cidrs[0].ports",
		rule("namespaces: [a], cidrs: [{cidr: 10.0.0.1/8}]"):                               "did you mean 10.0.0.0/8?",
		rule("namespaces: [a], cidrs: [{cidr: models, ports: [1]}]"):                       "must be a range",
		rule("namespaces: [a], cidrs: [{cidr: 10.0.0.0/8, ports: [0]}]"):                   "invalid port 0",
		rule("namespaces: [a], cidrs: [{cidr: 10.0.0.0/8, ports: [65536]}]"):               "65536",
		rule("namespaces: [a], cidrs: [{cidr: 169.254.169.254/32, ports: [80]}]"):          "never reached",
		rule("namespaces: [a], cidrs: [{cidr: 127.0.0.0/8, ports: [80]}]"):                 "never reached",
		rule(`namespaces: [a], cidrs: [{cidr: "::ffff:10.0.0.0/104", ports: [80]}]`):       "must be a range",
		rule("namespaces: [a], services: [{namespace: b, name: c.d, ports: [80]}]"):        "services[0].name",
		rule("namespaces: [a], services: [{name: c, ports: [80]}]"):                        "services[0].namespace",
		rule("namespaces: [a], services: [{namespace: b, name: c}]"):                       "services[0].ports",
		rule("namespaces: [a], caBundle: none, " + cidrs):                                  "caBundle: no certificate",
		strings.Repeat("#", MaxBytes+1):                                                    "the maximum is",
		head + "rules:\n" + strings.Repeat("- {namespaces: [a], "+cidrs+"}\n", maxRules+1): "the maximum is 1000",
		rule("namespaces: [" + strings.Repeat("a, ", maxItems+1) + "a], " + cidrs):         "more than 1000",
		// The second rule.
		head + "rules:\n- {namespaces: [a], " + cidrs + "}\n- {namespaces: [], " + cidrs + "}": "rules[1]",
	} {
		p, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200q: %+v, %v", text, p, err)
		}
	}
}
