//go:build e2e

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// journal returns the entries of Session demo, in order.
func journal(ctx context.Context, namespace string) []format.Entry {
	GinkgoHelper()
	var list v1alpha1.JournalEntryList
	Expect(api.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	var entries []format.Entry
	for _, entry := range list.Items {
		if entry.Spec.Session == "demo" {
			content, err := format.Decode(&entry.Spec)
			Expect(err).NotTo(HaveOccurred())
			entries = append(entries, *content)
		}
	}
	slices.SortFunc(entries, func(a, b format.Entry) int { return cmp.Compare(a.Ordinal, b.Ordinal) })
	return entries
}

// outcomes are the results of the tool calls of a Turn in the journal, by tool name. A tool is called once in the
// Turns that are looked at in this way.
func outcomes(ctx context.Context, turn *v1alpha1.Turn) map[string]event.ToolCompleted {
	GinkgoHelper()
	found := map[string]event.ToolCompleted{}
	for _, entry := range journal(ctx, turn.Namespace) {
		if entry.Turn == nil || entry.Turn.UID != turn.UID {
			continue
		}
		for _, e := range entry.Events {
			if e.Type != event.TypeToolCompleted {
				continue
			}
			data, err := event.Decode[event.ToolCompleted](e)
			Expect(err).NotTo(HaveOccurred())
			Expect(found).NotTo(HaveKey(data.ToolName), "two results of one call")
			found[data.ToolName] = data
		}
	}
	return found
}

// resultText is the result of a tool in the journal.
func resultText(data event.ToolCompleted) string {
	GinkgoHelper()
	Expect(data.Result).To(HaveLen(1))
	return data.Result[0].Text
}

// generations counts the calls of providers in the journal of a Turn.
func generations(ctx context.Context, turn *v1alpha1.Turn) int {
	GinkgoHelper()
	count := 0
	for _, entry := range journal(ctx, turn.Namespace) {
		if entry.Turn == nil || entry.Turn.UID != turn.UID {
			continue
		}
		for _, e := range entry.Events {
			if e.Type == event.TypeLLMGeneration {
				count++
			}
		}
	}
	return count
}

// finalEntries counts the final entries in the journal of each step of a Turn: there must always be one.
func finalEntries(ctx context.Context, turn *v1alpha1.Turn) map[string]int {
	GinkgoHelper()
	found := map[string]int{}
	for _, entry := range journal(ctx, turn.Namespace) {
		if entry.Final && entry.Turn != nil && entry.Turn.UID == turn.UID {
			found[fmt.Sprintf("step %d", entry.Step)]++
		}
	}
	return found
}

// partials are the partial responses in the journals of a namespace, in order.
func partials(ctx context.Context, namespace string) []format.PartialAnswer {
	GinkgoHelper()
	var found []format.PartialAnswer
	for _, entry := range journal(ctx, namespace) {
		if entry.Partial != nil {
			found = append(found, *entry.Partial)
		}
	}
	return found
}
