package turns_test

import (
	"context"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// phaseOf returns a function that reads where a Session stands.
func phaseOf(ctx context.Context, namespace, name string) func() (v1alpha1.SessionPhase, error) {
	return func() (v1alpha1.SessionPhase, error) {
		session := &v1alpha1.Session{}
		err := kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, session)
		return session.Status.Phase, err
	}
}

// accepted returns a function that reads the Accepted condition of a ToolResult: status and reason.
func accepted(ctx context.Context, namespace, name string) func() (string, error) {
	return func() (string, error) {
		result := &v1alpha1.ToolResult{}
		if err := kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, result); err != nil {
			return "", err
		}
		for _, c := range result.Status.Conditions {
			if c.Type == v1alpha1.ConditionAccepted {
				return string(c.Status) + " " + c.Reason, nil
			}
		}
		return "", nil
	}
}

func acceptedMessage(ctx context.Context, namespace, name string) string {
	result := &v1alpha1.ToolResult{}
	Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, result)).To(Succeed())
	return result.Status.Conditions[0].Message
}

// conditionOf reads a condition of a Turn; an empty one when it is not there.
func conditionOf(turn *v1alpha1.Turn, kind string) metav1.Condition {
	for _, c := range turn.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return metav1.Condition{}
}

// contentOf is the content of an entry.
func contentOf(e v1alpha1.JournalEntry) journal.Entry {
	content, err := format.Decode(&e.Spec)
	Expect(err).NotTo(HaveOccurred())
	return *content
}

// entries reads the journal of a Session in order.
func entries(ctx context.Context, namespace, session string) []journal.Entry {
	var list v1alpha1.JournalEntryList
	Expect(kit.Client.List(ctx, &list, client.InNamespace(namespace))).To(Succeed())
	found := make([]journal.Entry, 0, len(list.Items))
	for ordinal := int64(1); len(found) < len(list.Items); ordinal++ {
		before := len(found)
		for i := range list.Items {
			if list.Items[i].Spec.Session == session && list.Items[i].Spec.Ordinal == ordinal {
				found = append(found, contentOf(list.Items[i]))
			}
		}
		if len(found) == before {
			break
		}
	}
	return found
}

// eventTypes are the types of all events of a Session's journal, in order.
func eventTypes(ctx context.Context, namespace, session string) []string {
	var kinds []string
	for _, entry := range entries(ctx, namespace, session) {
		for _, event := range entry.Events {
			kinds = append(kinds, event.Type)
		}
	}
	return kinds
}
