//go:build e2e

package e2e_test

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("kubectl", func() {
	It("waits for the conditions of Turns and prints their columns", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newStage(ctx,
			builder.Script("It has {{tool:word-count}} words.", calls{call("word-count", arguments{"text": "one two"})}),
			toolbox("word-count", "word-count", v1alpha1.SideEffectPure))
		create(ctx, builder.Model("broken").In(namespace).Simulated(v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeError, Text: "the model is broken"},
		}).Obj())
		ask(ctx, namespace, "demo-1")
		wait := func(ctx context.Context, condition, turn string) string {
			GinkgoHelper()
			return kubectl(ctx, "wait", "--namespace", namespace, "--for=condition="+condition, "turn/"+turn, "--timeout=60s")
		}
		Expect(wait(ctx, "Finished", "demo-1")).To(ContainSubstring("turn.capstan.dev/demo-1 condition met"))
		Expect(wait(ctx, "Succeeded", "demo-1")).To(ContainSubstring("turn.capstan.dev/demo-1 condition met"))

		create(ctx, &v1alpha1.Turn{
			ObjectMeta: named(namespace, "demo-2"),
			Spec: v1alpha1.TurnSpec{
				SessionRef: v1alpha1.LocalReference{Name: "demo"}, Input: "Please.",
				Controls: &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "broken"}},
			},
		})
		Expect(
			wait(ctx, "Finished", "demo-2"),
		).To(ContainSubstring("condition met"), "kubectl wait ends for a Turn that failed")
		Expect(wait(ctx, "Succeeded=false", "demo-2")).To(ContainSubstring("condition met"))

		for resource, words := range map[string][]string{
			"turns":    {"NAME", "SESSION", "PHASE", "ITERATION", "CALLS", "TOKENS", "REASON", "AGE"},
			"sessions": {"NAME", "PHASE", "TITLE", "HARNESS", "ACTIVE TURN", "TURNS", "TOKENS", "READY", "REASON", "AGE"},
			"models":   {"NAME", "PROVIDER", "MODEL", "DEFAULT", "READY", "AGE"},
			"tools":    {"NAME", "SIDE EFFECT", "IMAGE", "TIMEOUT", "READY", "AGE"},
		} {
			table := kubectl(ctx, "get", resource, "--namespace", namespace)
			show("kubectl get "+resource, "\n"+table)
			Expect(columns(table)).To(Equal(words))
		}
		Expect(kubectl(ctx, "get", "turns", "--namespace", namespace)).To(And(
			MatchRegexp(
				`demo-1\s+demo\s+Succeeded\s+2\s+1/1\s+[1-9][0-9]*\s+EndTurn\s`,
			),
			MatchRegexp(`demo-2\s+demo\s+Failed\s`),
		))
	})

	It(
		"reports that the manager's account has the permissions that it needs, and no others",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			account := "system:serviceaccount:" + managerNamespace + ":" + managerAccount
			for _, namespace := range []string{"default", "kube-system", managerNamespace} {
				rights := kubectl(ctx, "auth", "can-i", "--list", "--as", account, "--namespace", namespace)
				if namespace == managerNamespace {
					show("the manager's rights in its own namespace", "\n"+rights)
				}
				lines := strings.Split(strings.TrimSpace(rights), "\n")
				Expect(
					wideSpace.Split(lines[0], -1),
				).To(Equal([]string{"Resources", "Non-Resource URLs", "Resource Names", "Verbs"}))
				Expect(rights).To(MatchRegexp(`(?m)^turns\.capstan\.dev\s.*watch`))
				for _, line := range lines[1:] {
					resource := strings.Fields(line)[0]
					verbs := line[strings.LastIndex(line, "["):]
					Expect(verbs).NotTo(ContainSubstring("*"), line)
					if !strings.HasPrefix(line, " ") {
						Expect(resource).NotTo(ContainSubstring("*"), line)
					}
					if strings.HasPrefix(resource, "secrets") {
						Expect(namespace).To(Equal(managerNamespace), line)
						Expect(line).To(MatchRegexp(
							`^secrets\s+\[\]\s+\[(capstan-identity-keys|capstan-stream)\]\s+\[get update\]\s*$`))
					}
				}
			}
		},
	)
})
