package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
)

const (
	// resourceClass makes the calls of a step that use resources run one after the other, in the order of the response.
	resourceClass = "session_resources"
	// resourceIDSchema, resourceKindSchema and resourceStatusSchema are those of the parts of a resource.
	resourceIDSchema     = `{"type": "string", "minLength": 1, "maxLength": 128}`
	resourceKindSchema   = `{"type": "string", "minLength": 1, "maxLength": 63}`
	resourceStatusSchema = `{"type": "string", "enum": ["active", "completed", "failed", "released"]}`
	// oneResourceSchema is that of the arguments of the tools for one resource.
	oneResourceSchema = `{
  "type": "object",
  "required": ["id"],
  "properties": {"id": ` + resourceIDSchema + `},
  "additionalProperties": false
}`
)

// sessionResources lets the model know and describe what runs beside a Session, such as sandboxes and browsers
// (RES-01).
//
// The tools that change the registry are Idempotent: a change is recorded under its call, and a repeated call returns
// the first result.
var sessionResources = Capability{
	Name: "session_resources",
	Description: "Lets the model register what it uses outside of the Session, such as sandboxes and browsers, with " +
		"their states.",
	Tools: []Tool{
		{
			Name: "register_resource",
			Description: "Registers something outside of this session that you have started or use, such as a sandbox or a " +
				"browser, or replaces the entry of its id. The registry only describes it. Never write passwords, tokens or " +
				"other secrets into metadata.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["id", "kind"],
  "properties": {
    "id": ` + resourceIDSchema + `,
    "kind": ` + resourceKindSchema + `,
    "status": ` + resourceStatusSchema + `,
    "metadata": {
      "type": "object", "maxProperties": 16, "additionalProperties": {"type": "string", "maxLength": 1024},
      "description": "Texts that describe the resource: at most 1024 bytes together."
    }
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: resourceClass,
			Run:              withResources(registerResource),
		},
		{
			Name:        "update_resource",
			Description: "Sets the status of a registered resource.",
			SideEffect:  v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["id", "status"],
  "properties": {"id": ` + resourceIDSchema + `, "status": ` + resourceStatusSchema + `},
  "additionalProperties": false
}`,
			ConcurrencyClass: resourceClass,
			Run:              withResources(updateResource),
		},
		{
			Name:             "get_resource",
			Description:      "Returns a registered resource.",
			InputSchema:      oneResourceSchema,
			ConcurrencyClass: resourceClass,
			Run:              withResources(getResource),
		},
		{
			Name: "list_resources",
			Description: "Lists the registered resources of this session, the newest first: all of them, or those of a kind, " +
				"of a status, or of both. omitted is how many older ones are left out.",
			InputSchema: `{
  "type": "object",
  "properties": {
    "kind": ` + resourceKindSchema + `, "status": ` + resourceStatusSchema + `,
    "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "How many at most; by default 50."}
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: resourceClass,
			Run:              withResources(listResources),
		},
		{
			Name: "deregister_resource",
			Description: "Removes a resource from the registry, and returns whether it was there. The resource itself is not " +
				"changed.",
			SideEffect:       v1alpha1.SideEffectIdempotent,
			InputSchema:      oneResourceSchema,
			ConcurrencyClass: resourceClass,
			Run:              withResources(deregisterResource),
		},
		{
			Name: "release_resource",
			Description: "Cleans up a resource that a tool has created for this session, because it is not needed any more: " +
				"it is deleted soon. The resource must have been listed with an id that begins with lease-; its provider, type " +
				"and external_id are in its metadata.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["provider", "type", "external_id"],
  "properties": {
    "provider": {"type": "string", "minLength": 1, "maxLength": 63},
    "type": {"type": "string", "minLength": 1, "maxLength": 63},
    "external_id": {"type": "string", "minLength": 1, "maxLength": 256}
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: resourceClass,
			Run:              using("leases", func(s Services) Leases { return s.Leases }, releaseResource),
		},
	},
}

// resourceArguments are the arguments of all tools.
type resourceArguments struct {
	ID, Kind, Status string
	Metadata         map[string]string
	Limit            int
}

const (
	// maxListedResources is how many resources are listed at most, and listedResources how many without a limit.
	maxListedResources, listedResources = 100, 50
	// maxListedBytes is the most of their JSON.
	maxListedBytes = 48 << 10
)

// resourceList is the result of list_resources.
type resourceList struct {
	Resources []json.RawMessage `json:"resources"`
	// Omitted is how many older ones are left out.
	Omitted int `json:"omitted,omitempty"`
}

// withResources returns the Run of a tool that needs the resources of the Session.
func withResources(
	run func(context.Context, Call, Resources, resourceArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("resources", func(s Services) Resources { return s.Resources }, run)
}

func registerResource(ctx context.Context, call Call, resources Resources, a resourceArguments) (any, error) {
	return resources.Register(ctx, call.Cause, resource.Draft{
		ID: a.ID, Kind: a.Kind, Status: resource.Status(a.Status), Metadata: a.Metadata,
	})
}

func updateResource(ctx context.Context, call Call, resources Resources, a resourceArguments) (any, error) {
	changed, err := resources.UpdateStatus(ctx, call.Cause, a.ID, resource.Status(a.Status))
	if err == nil && changed == nil {
		return nil, unknownResource(a.ID)
	}
	return changed, err
}

func getResource(ctx context.Context, _ Call, resources Resources, a resourceArguments) (any, error) {
	found, err := resources.Get(ctx, a.ID)
	if err == nil && found == nil {
		return nil, unknownResource(a.ID)
	}
	return found, err
}

func listResources(ctx context.Context, _ Call, resources Resources, a resourceArguments) (any, error) {
	found, err := resources.List(ctx, resource.Filter{Kind: a.Kind, Status: resource.Status(a.Status)})
	if err != nil {
		return nil, err
	}
	most := listedResources
	if a.Limit > 0 {
		most = min(a.Limit, maxListedResources)
	}
	list, left := resourceList{Resources: []json.RawMessage{}, Omitted: len(found)}, maxListedBytes
	for _, r := range slices.Backward(found) {
		raw, err := json.Marshal(r)
		if err != nil {
			return nil, fmt.Errorf("encoding resource %q: %w", r.ID, err)
		}
		if left -= len(raw) + 1; left < 0 || len(list.Resources) == most {
			break
		}
		list.Resources = append(list.Resources, raw)
		list.Omitted--
	}
	return list, nil
}

func deregisterResource(ctx context.Context, call Call, resources Resources, a resourceArguments) (any, error) {
	existed, err := resources.Deregister(ctx, call.Cause, a.ID)
	return map[string]bool{"existed": existed}, err
}

// releaseArguments are the arguments of release_resource.
type releaseArguments struct {
	Provider   string
	Type       string
	ExternalID string `json:"external_id"`
}

func releaseResource(ctx context.Context, _ Call, leases Leases, a releaseArguments) (any, error) {
	state, err := leases.Release(ctx, lease.Identity{Provider: a.Provider, Type: a.Type, ExternalID: a.ExternalID})
	if err == nil && state == "" {
		return nil, Errorf("This session has no lease on a %s %.64q of %s.", a.Type, a.ExternalID, a.Provider)
	}
	return map[string]string{"state": string(state)}, err
}

func unknownResource(id string) error { return Errorf("The resource %q is not registered.", id) }
