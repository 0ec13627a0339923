package validation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/config/crd"
)

// maxDefinitionBytes keeps a definition well below what etcd takes and what client-side apply can repeat in an
// annotation.
const maxDefinitionBytes = 200 << 10

var _ = Describe("Definitions", func() {
	It("cover the kinds that users write, and those that the manager writes", func() {
		Expect(definitionsByKind()).To(HaveLen(len(userKinds) + 3))
		for _, kind := range append([]string{"JournalEntry", "LeasedResource", "Record"}, userKinds...) {
			Expect(definitionsByKind()).To(HaveKey(kind))
		}
	})

	It("are small", func() {
		manifests, err := crd.Manifests()
		Expect(err).NotTo(HaveOccurred())
		Expect(manifests).To(HaveLen(len(definitionsByKind())))
		for file, manifest := range manifests {
			Expect(len(manifest)).To(BeNumerically("<", maxDefinitionBytes), "%s is too large", file)
		}
	})

	It("are small as the API server stores them, and may be applied by the client side", func(ctx context.Context) {
		Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
		for _, definition := range definitionsByKind() {
			Expect(
				kubectl(ctx, "apply", "-f", "../../config/crd/bases/capstan.dev_"+definition.Spec.Names.Plural+".yaml"),
			).To(ContainSubstring(definition.Name))
			stored := &apiextensionsv1.CustomResourceDefinition{}
			Expect(api.Get(ctx, client.ObjectKeyFromObject(definition), stored)).To(Succeed())
			// What client-side apply repeats has a limit of its own, 256 KiB, and would count twice.
			Expect(stored.Annotations).To(HaveKey(corev1.LastAppliedConfigAnnotation))
			Expect(
				len(stored.Annotations[corev1.LastAppliedConfigAnnotation]),
			).To(BeNumerically("<", maxDefinitionBytes), definition.Name)
			applied := stored.DeepCopy()
			delete(stored.Annotations, corev1.LastAppliedConfigAnnotation)
			Expect(api.Patch(ctx, stored, client.MergeFrom(applied))).To(Succeed())
			raw, err := json.Marshal(stored)
			Expect(err).NotTo(HaveOccurred())
			Expect(len(raw)).To(BeNumerically("<", maxDefinitionBytes), definition.Name)
		}
	})

	It("were accepted without complaint", func(ctx context.Context) {
		for _, definition := range definitionsByKind() {
			stored := &apiextensionsv1.CustomResourceDefinition{}
			Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
			Expect(api.Get(ctx, client.ObjectKeyFromObject(definition), stored)).To(Succeed())
			for _, condition := range stored.Status.Conditions {
				switch condition.Type {
				case apiextensionsv1.Established, apiextensionsv1.NamesAccepted:
					Expect(condition.Status).To(Equal(apiextensionsv1.ConditionTrue), "%s: %s", definition.Name, condition.Message)
				default:
					Expect(
						condition.Status,
					).To(Equal(apiextensionsv1.ConditionFalse), "%s: %s %s", definition.Name, condition.Type, condition.Message)
				}
			}
		}
	})

	for kind, definition := range definitionsByKind() {
		It(fmt.Sprintf("of %s describe every field", kind), func() {
			root := rootSchema(definition)
			Expect(root.Description).NotTo(BeEmpty())
			for _, name := range []string{"spec", "status"} {
				part, found := root.Properties[name]
				if !found {
					continue
				}
				forEachField(name, part, func(path string, schema jsonSchema) {
					Expect(strings.TrimSpace(schema.Description)).NotTo(BeEmpty(), "%s has no description", path)
				})
			}
		})
	}

	for _, kind := range userKinds {
		It(fmt.Sprintf("of %s bound everything that a user writes", kind), func() {
			walk("", userSchema(definitionsByKind()[kind]), func(path string, schema jsonSchema) {
				Expect(unbounded(schema)).To(BeEmpty(), path)
			})
		})

		It(fmt.Sprintf("of %s define how every list is merged", kind), func() {
			walk("", rootSchema(definitionsByKind()[kind]), func(path string, schema jsonSchema) {
				if schema.Type == "array" {
					Expect(schema.XListType).NotTo(BeNil(), "%s needs a listType", path)
				}
			})
		})
	}
})

// forEachField visits the named fields of a schema, itself included, but neither the items of lists nor the values of
// maps.
func forEachField(path string, schema jsonSchema, visit func(path string, schema jsonSchema)) {
	walk(path, schema, func(path string, schema jsonSchema) {
		if !strings.HasSuffix(path, "]") {
			visit(path, schema)
		}
	})
}

// unbounded returns the limit that a schema lacks.
func unbounded(schema jsonSchema) string {
	switch {
	case schema.Type == "string" && schema.MaxLength == nil && len(schema.Enum) == 0:
		return "the string has neither a maximum length nor a list of values"
	case schema.Type == "array" && schema.MaxItems == nil:
		return "the list has no maximum"
	case schema.AdditionalProperties != nil && schema.MaxProperties == nil:
		return "the map has no maximum"
	case schema.Type == "integer" && (schema.Minimum == nil || schema.Maximum == nil):
		return "the number lacks a minimum or a maximum"
	default:
		return ""
	}
}
