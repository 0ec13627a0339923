package builtin

import (
	"context"
	"errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/title"
	"github.com/capstan-dev/capstan/internal/runtime/utility"
)

// sessionTitle is the capability that gives Sessions titles: package step has a model write one, and a tool changes it
// (CTX-02).
var sessionTitle = Capability{
	Name:         title.Capability,
	Description:  "Gives the Session a title after its first Turn, and lets the model change it.",
	ConfigSchema: title.Schema,
	Tools:        titleTools,
	Configure: func(config []byte) ([]Tool, error) {
		if _, err := title.Parse(string(config)); err != nil {
			return nil, &ConfigError{err.Error()}
		}
		return titleTools, nil
	},
}

var titleTools = []Tool{{
	Name: "set_session_title",
	Description: "Sets the title by which people find this conversation in a list. Call it when the subject has " +
		"changed, or when the user asks for another title.",
	SideEffect: v1alpha1.SideEffectIdempotent,
	InputSchema: `{
  "type": "object",
  "required": ["title"],
  "properties": {
    "title": {"type": "string", "minLength": 1, "maxLength": 200, "description": "At most 80 characters, in one line."}
  },
  "additionalProperties": false
}`,
	ConcurrencyClass: title.Capability,
	Run:              using("title that can be set", func(s Services) Title { return s.Title }, setTitle),
}}

func setTitle(ctx context.Context, _ Call, of Title, arguments struct {
	Title string `json:"title"`
},
) (any, error) {
	text := title.Of(arguments.Title)
	if text == "" {
		return nil, Errorf("The title has no printable characters.")
	}
	switch err := of.Set(ctx, text); {
	case errors.Is(err, title.ErrGiven):
		return nil, Errorf("The user has given this session its title, which cannot be changed here.")
	case err != nil:
		return nil, err
	}
	return map[string]string{"title": text}, nil
}

// utilityModel is the capability that names the Model for the calls of other capabilities (SVC-01). It has no tools:
// package config looks for it.
var utilityModel = Capability{
	Name:         utility.Capability,
	Description:  "Names the Model that capabilities call for their own purposes, such as summaries and titles.",
	ConfigSchema: utility.Schema,
	Configure: func(config []byte) ([]Tool, error) {
		if _, err := utility.Parse(string(config)); err != nil {
			return nil, &ConfigError{err.Error()}
		}
		return nil, nil
	},
}
