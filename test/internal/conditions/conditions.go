// Package conditions prints the conditions of a namespace, for the report of a spec.
package conditions

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
)

// Print adds a table to the report of the spec: the main condition of each Turn, Session and Model of a namespace.
func Print(ctx context.Context, reader client.Reader, when, namespace string) {
	GinkgoHelper()
	var rows []string
	for _, kind := range []struct {
		name, condition string
		list            client.ObjectList
	}{
		{"Turn", v1alpha1.ConditionSucceeded, &v1alpha1.TurnList{}},
		{"Session", v1alpha1.ConditionReady, &v1alpha1.SessionList{}},
		{"Model", v1alpha1.ConditionReady, &v1alpha1.ModelList{}},
	} {
		Expect(reader.List(ctx, kind.list, client.InNamespace(namespace))).To(Succeed())
		items, err := meta.ExtractList(kind.list)
		Expect(err).NotTo(HaveOccurred())
		if len(items) == 0 {
			rows = append(rows, row(kind.name, "does not exist", "", "", ""))
		}
		for _, item := range items {
			object, ok := item.(client.Object)
			Expect(ok).To(BeTrue())
			if c := meta.FindStatusCondition(status.Conditions(object), kind.condition); c != nil {
				message := strings.ReplaceAll(c.Message, namespace, "NAMESPACE")
				rows = append(rows, row(kind.name+" "+object.GetName(), c.Type, string(c.Status), c.Reason, message))
			}
		}
	}
	AddReportEntry(when, strings.Join(rows, "\n"), ReportEntryVisibilityFailureOrVerbose)
}

// row is a line of the table.
func row(object, kind, status, reason, message string) string {
	return strings.TrimRight(fmt.Sprintf("%-16s %-10s %-8s %-20s %s", object, kind, status, reason, message), " ")
}
