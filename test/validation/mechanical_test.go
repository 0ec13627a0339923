package validation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var _ = Describe("Limits", func() {
	for _, kind := range userKinds {
		Describe(kind, func() {
			for _, c := range constraintsOf(kind) {
				if !c.mechanical() {
					continue
				}
				It(fmt.Sprintf("enforces %s", c.id()), func(ctx context.Context) {
					base := specimenWith(c.kind, c.path)
					atLimit, beyond, message := edge(c, base)
					Expect(createDryRun(ctx, atLimit)).To(Succeed(), "the value at the limit must be accepted")
					err := createDryRun(ctx, beyond)
					Expect(
						apierrors.IsInvalid(err),
					).To(BeTrue(), "the value beyond the limit must be rejected as invalid, got: %v", err)
					Expect(err).To(MatchError(ContainSubstring(message)))
				})
			}
		})
	}
})

var _ = Describe("Defaults", func() {
	for _, kind := range userKinds {
		walk("", userSchema(definitionsByKind()[kind]), func(path string, schema jsonSchema) {
			if schema.Default == nil {
				return
			}
			It(fmt.Sprintf("fills in %s of a %s", path, kind), func(ctx context.Context) {
				object := specimenWith(kind, path)
				replace(object, segments(path), nil)
				Expect(createDryRun(ctx, object)).To(Succeed())
				value, found := lookup(object.Object, segments(path))
				Expect(found).To(BeTrue(), "the default must be visible in the object")
				Expect(json.Marshal(value)).To(MatchJSON(schema.Default.Raw))
			})
		})
	}
})

var _ = Describe("Specimens", func() {
	for _, kind := range userKinds {
		It(fmt.Sprintf("of %s set every field of the schema", kind), func() {
			walk("", userSchema(definitionsByKind()[kind]), func(path string, _ jsonSchema) {
				Expect(func() { specimenWith(kind, path) }).NotTo(Panic(), "add %s to a specimen of %s", path, kind)
			})
		})
	}
})

func createDryRun(ctx context.Context, object *unstructured.Unstructured) error {
	object.SetNamespace(dryRunNamespace)
	return api.Create(ctx, object, client.DryRunAll, client.FieldValidation("Strict"))
}

// specimenWith is the first specimen of a kind that has a value at a path.
func specimenWith(kind, path string) *unstructured.Unstructured {
	for _, s := range specimensOf(kind) {
		object := s.object(dryRunNamespace)
		if path == "" {
			return object
		}
		if _, found := lookup(object.Object, segments(path)); found {
			return object
		}
	}
	panic(fmt.Sprintf("no specimen of %s has %s", kind, path))
}

// edge returns an object at the limit of a constraint, one just beyond, and the beginning of the error for the latter.
func edge(c constraint, base *unstructured.Unstructured) (atLimit, beyond *unstructured.Unstructured, message string) {
	with := func(value any) *unstructured.Unstructured {
		object := base.DeepCopy()
		replace(object, segments(c.path), value)
		return object
	}
	current, _ := lookup(base.Object, segments(c.path))
	switch c.keyword {
	case keywordType:
		return base, with(valueOfOtherType(c.schema)), "must be of type"
	case keywordMaxLength:
		limit := int(*c.schema.MaxLength)
		return with(text(c, limit)), with(text(c, limit) + "0"), fmt.Sprintf("Too long: may not be more than %d", limit)
	case keywordMinLength:
		limit := int(*c.schema.MinLength)
		return with(text(c, limit)), with(text(c, limit)[1:]), fmt.Sprintf("should be at least %d chars long", limit)
	case keywordMaximum:
		limit := int64(*c.schema.Maximum)
		return with(limit), with(limit + 1), fmt.Sprintf("should be less than or equal to %d", limit)
	case keywordMinimum:
		limit := int64(*c.schema.Minimum)
		return with(limit), with(limit - 1), fmt.Sprintf("should be greater than or equal to %d", limit)
	case keywordMaxItems:
		limit := int(*c.schema.MaxItems)
		return with(
				items(c, current, limit),
			), with(
				items(c, current, limit+1),
			), fmt.Sprintf(
				"must have at most %d items",
				limit,
			)
	case keywordMinItems:
		limit := int(*c.schema.MinItems)
		return with(
				items(c, current, limit),
			), with(
				items(c, current, limit-1),
			), fmt.Sprintf(
				"should have at least %d items",
				limit,
			)
	case keywordMaxProperties:
		limit := int(*c.schema.MaxProperties)
		return with(entries(current, limit)), with(entries(current, limit+1)), fmt.Sprintf("must have at most %d", limit)
	case keywordUniqueKeys:
		list := items(c, current, 1)
		return with(list), with(append(list, list[0])), "Duplicate value"
	default:
		panic("no edge is known for " + c.keyword)
	}
}

func valueOfOtherType(schema jsonSchema) any {
	switch {
	case schema.XIntOrString:
		return true
	case schema.Type == "string":
		return int64(7)
	case schema.Type == "array":
		return map[string]any{}
	default:
		return "seven"
	}
}

// text is a string of a length that obeys everything else that its field demands.
func text(c constraint, length int) string {
	switch {
	case strings.HasSuffix(c.path, "imeout") || strings.HasSuffix(c.path, "latency") || strings.HasSuffix(c.path, "TTL"),
		strings.HasPrefix(c.path, "spec.timeouts."):
		return strings.Repeat("0", length-2) + "5s"
	case c.path == "spec.refreshInterval", c.path == "spec.probe.interval", c.path == "spec.lease.duration":
		return strings.Repeat("0", length-2) + "5m"
	case c.path == "spec.schedule":
		return "0 9 * * " + strings.Repeat("1", length-len("0 9 * * "))
	case c.schema.Format == formatTime:
		return "2031-01-02T03:04:05." + strings.Repeat("0", length-len("2031-01-02T03:04:05.Z")) + "Z"
	case c.path == "spec.parameters.temperature", c.path == "spec.parameters.topP":
		return "0." + strings.Repeat("1", length-len("0."))
	case strings.HasSuffix(c.path, "PerMillionTokens"):
		return "111111." + strings.Repeat("1", length-len("111111."))
	case strings.HasSuffix(c.path, "currency"):
		return strings.Repeat("X", length)
	case c.path == "spec.http.url", c.path == "spec.baseURL":
		return "https://example.org/" + strings.Repeat("x", length-len("https://example.org/"))
	case c.path == "spec.limit", c.path == "spec.softLimit", strings.HasPrefix(c.path, "spec.http.payment.maxAmount"):
		return strings.Repeat("1", max(length-len(".111111"), 0)) + ".111111"[max(len(".111111")-length, 0):]
	case c.path == "spec.http.payment.payees[]":
		return "0x" + strings.Repeat("1", length-len("0x"))
	case c.kind == "Budget" && c.path == "spec.timeZone":
		return "America/Argentina/ComodRivadavia"[:length]
	case strings.HasSuffix(c.path, "sessionSelector.matchExpressions[].key") && length > 63:
		return strings.Repeat("x", length-len("/")-63) + "/" + strings.Repeat("x", 63)
	case c.path == "spec.callID":
		return "1234567890-1234"
	case c.path == "spec.traceParent":
		return traced + strings.Repeat("1", length-len(traced))
	case c.path == "spec.callDigest":
		return strings.Repeat("0", length)
	case strings.HasSuffix(c.path, "locale"):
		return ("de" + strings.Repeat("-12345678", length))[:length]
	case strings.HasSuffix(c.path, "serviceRef.path"), strings.HasSuffix(c.path, "secretArguments[]"),
		strings.HasSuffix(c.path, "externalIDPath"):
		return "/" + strings.Repeat("x", length-len("/"))
	case strings.HasSuffix(c.path, "imageRef.id"):
		return "img-" + strings.Repeat("0", length-len("img-"))
	case strings.HasSuffix(c.path, ".url"):
		return "https://" + strings.Repeat("x", length-len("https://"))
	default:
		return strings.Repeat("x", length)
	}
}

// items is a list of a length, made of the first item of a list, with different keys where the list is a map. A set of
// an enum has the items of the list, and then the other values.
func items(c constraint, current any, length int) []any {
	if values := valuesOf(c, current); values != nil {
		return values[:length]
	}
	first := current.([]any)[0]
	list := make([]any, 0, length)
	for i := range length {
		item := runtime.DeepCopyJSONValue(first)
		if c.schema.XListType != nil && *c.schema.XListType == "set" {
			item = fmt.Sprintf("item_%d", i)
			switch {
			case c.path == "spec.http.payment.payees":
				item = fmt.Sprintf("0x%040d", i)
			case strings.HasSuffix(c.path, "secretArguments"):
				item = fmt.Sprintf("/item_%d", i)
			}
		}
		for _, key := range c.schema.XListMapKeys {
			item.(map[string]any)[key] = fmt.Sprintf("item%d", i)
		}
		if of, ok := item.(map[string]any); ok && of["exitCode"] != nil {
			of["exitCode"] = int64(10 + i) // unique too, by a rule of its own
		}
		list = append(list, item)
	}
	return list
}

// valuesOf is the items of a set of an enum, and then the other values; nil for any other list.
func valuesOf(c constraint, current any) []any {
	if c.schema.Items == nil || c.schema.Items.Schema == nil || len(c.schema.Items.Schema.Enum) == 0 {
		return nil
	}
	values := slices.Clone(current.([]any))
	for _, raw := range c.schema.Items.Schema.Enum {
		var value string
		Expect(json.Unmarshal(raw.Raw, &value)).To(Succeed())
		if !slices.Contains(values, any(value)) {
			values = append(values, value)
		}
	}
	return values
}

// entries is a map of a size, made of the values of a map.
func entries(current any, size int) map[string]any {
	filled := runtime.DeepCopyJSONValue(current).(map[string]any)
	var sample any
	for _, value := range filled {
		sample = value
		break
	}
	for i := 0; len(filled) < size; i++ {
		filled[fmt.Sprintf("example.org/entry-%d", i)] = sample
	}
	return filled
}
