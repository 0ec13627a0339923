package builtin

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

const (
	// storageClass makes the calls of a step that use values run one after the other, in the order of the response.
	storageClass = "session_storage"
	// keySchema is the schema of a key.
	keySchema = `{"type": "string", "minLength": 1, "maxLength": 256}`
	// oneKeySchema is that of the arguments of the tools for one key.
	oneKeySchema = `{
  "type": "object",
  "required": ["key"],
  "properties": {"key": ` + keySchema + `},
  "additionalProperties": false
}`
)

// sessionStorage lets the model keep values by key (KV-01), and know and delete the secrets that users have set for the
// Session (KV-02), without their values.
//
// The tools that change values are Idempotent: a change is recorded under its call, and a repeated call returns the
// first result.
var sessionStorage = Capability{
	Name:        "session_storage",
	Description: "Lets the model keep values by key, for as long as the Session exists, and list and delete its secrets.",
	Tools: []Tool{
		{
			Name: "set_value",
			Description: "Stores a text under a key of this session, or replaces it. The key and its value stay for later " +
				"messages of this session. Never store passwords, tokens or other secrets here.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["key", "value"],
  "properties": {"key": ` + keySchema + `, "value": {"type": "string", "maxLength": 65536}},
  "additionalProperties": false
}`,
			ConcurrencyClass: storageClass,
			Run:              withStorage(setValue),
		},
		{
			Name:             "get_value",
			Description:      "Returns the text that is stored under a key of this session.",
			InputSchema:      oneKeySchema,
			ConcurrencyClass: storageClass,
			Run:              withStorage(getValue),
		},
		{
			Name:             "delete_value",
			Description:      "Deletes a key of this session with its value, and returns whether it existed.",
			SideEffect:       v1alpha1.SideEffectIdempotent,
			InputSchema:      oneKeySchema,
			ConcurrencyClass: storageClass,
			Run:              withStorage(deleteValue),
		},
		{
			Name: "list_values",
			Description: "Lists the keys of this session with the sizes and times of their values, and without the values: at " +
				"most 200 of them.",
			InputSchema: `{
  "type": "object",
  "properties": {
    "prefix": {"type": "string", "maxLength": 256, "description": "Lists only keys that begin with this text."},
    "after": {"type": "string", "maxLength": 256, "description": "Lists only keys behind this one."}
  },
  "additionalProperties": false
}`,
			ConcurrencyClass: storageClass,
			Run:              withStorage(listValues),
		},
		{
			Name: "list_secrets",
			Description: "Lists the names of the secrets that users have set for this session. Their values are never shown. " +
				"Where the description of a tool permits it, an argument refers to a secret by the text secret://NAME, and the " +
				"value is filled in when the request is sent.",
			InputSchema:      `{"type": "object", "additionalProperties": false}`,
			ConcurrencyClass: storageClass,
			Run:              withSecrets(listSecrets),
		},
		{
			Name: "delete_secret",
			Description: "Makes a secret of this session unusable until a user sets it again, and returns whether it existed. " +
				"A user must set it again by hand: delete only what is not needed any more.",
			SideEffect: v1alpha1.SideEffectIdempotent,
			InputSchema: `{
  "type": "object",
  "required": ["name"],
  "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 63}},
  "additionalProperties": false
}`,
			ConcurrencyClass: storageClass,
			Run:              withSecrets(deleteSecret),
		},
	},
}

// maxListed is the number of keys that one call lists.
const maxListed = 200

// valueArguments are the arguments of all tools.
type valueArguments struct{ Key, Value, Prefix, After string }

// withStorage returns the Run of a tool that needs the values of the Session.
func withStorage(
	run func(context.Context, Call, Storage, valueArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("storage", func(s Services) Storage { return s.Storage }, run)
}

// valueChanged is what set_value returns.
type valueChanged struct {
	Key string `json:"key"`
	*storage.Written
}

func setValue(ctx context.Context, call Call, values Storage, a valueArguments) (any, error) {
	written, err := values.Set(ctx, call.Cause, a.Key, a.Value)
	return valueChanged{Key: a.Key, Written: written}, err
}

func getValue(ctx context.Context, _ Call, values Storage, a valueArguments) (any, error) {
	value, err := values.Get(ctx, a.Key)
	if err == nil && value == nil {
		return nil, Errorf("The key %q does not exist.", a.Key)
	}
	return value, err
}

func deleteValue(ctx context.Context, call Call, values Storage, a valueArguments) (any, error) {
	existed, err := values.Delete(ctx, call.Cause, a.Key)
	return map[string]bool{"existed": existed}, err
}

// valueList is what list_values returns.
type valueList struct {
	Values []storage.Info `json:"values"`
	// More reports whether there are further keys.
	More bool `json:"more,omitempty"`
}

func listValues(ctx context.Context, _ Call, values Storage, a valueArguments) (any, error) {
	infos, err := values.List(ctx, a.Prefix)
	if err != nil {
		return nil, err
	}
	list := valueList{Values: []storage.Info{}}
	for _, info := range infos {
		if info.Key <= a.After && a.After != "" {
			continue
		}
		if list.More = len(list.Values) == maxListed; list.More {
			break
		}
		list.Values = append(list.Values, info)
	}
	return list, nil
}

// secretArguments are the arguments of the tools for secrets.
type secretArguments struct{ Name string }

// withSecrets returns the Run of a tool that needs the secrets of the Session.
func withSecrets(
	run func(context.Context, Call, Secrets, secretArguments) (any, error),
) func(context.Context, Call) (any, error) {
	return using("secrets", func(s Services) Secrets { return s.Secrets }, run)
}

func listSecrets(ctx context.Context, _ Call, secrets Secrets, _ secretArguments) (any, error) {
	names, err := secrets.Names(ctx)
	return map[string][]string{"secrets": names}, err
}

func deleteSecret(ctx context.Context, call Call, secrets Secrets, a secretArguments) (any, error) {
	existed, err := secrets.Delete(ctx, call.Cause, a.Name)
	return map[string]bool{"existed": existed}, err
}
