package builtin

import (
	"context"
	"encoding/json"
	"time"
	_ "time/tzdata" // The image of the manager has no time zones.
)

// currentTime lets the model look at the clock.
var currentTime = Capability{
	Name:        "current_time",
	Description: "Lets the model look at the clock.",
	ConfigSchema: `{
  "type": "object",
  "properties": {"timezone": {"type": "string", "minLength": 1, "maxLength": 64}},
  "additionalProperties": false
}`,
	Tools:     []Tool{clockOf("UTC")},
	Configure: configureClock,
}

// configureClock returns the tool with the time zone of a configuration.
func configureClock(config []byte) ([]Tool, error) {
	read := struct {
		TimeZone string `json:"timezone"`
	}{TimeZone: "UTC"}
	if err := json.Unmarshal(config, &read); err != nil {
		return nil, &ConfigError{err.Error()}
	}
	if _, err := zoneOf(read.TimeZone); err != nil {
		return nil, &ConfigError{err.Error()}
	}
	return []Tool{clockOf(read.TimeZone)}, nil
}

// clockOf returns the tool, with the time zone of calls that name none.
func clockOf(zone string) Tool {
	return Tool{
		Name:        "get_current_time",
		Description: "Returns the current date and time, in any time zone.",
		InputSchema: `{
  "type": "object",
  "properties": {
    "timezone": {
      "type": "string",
      "maxLength": 64,
      "description": "Name of the time zone in the IANA database, such as Europe/Berlin. Default: ` + zone + `."
    },
    "format": {
      "type": "string",
      "enum": ["iso8601", "unix", "human"],
      "description": "iso8601 (default), unix for the seconds since 1970, or human for a text in English."
    }
  }
}`,
		Run: func(_ context.Context, call Call) (any, error) { return currentTimeIn(zone, call) },
	}
}

// timeResult is what get_current_time returns.
type timeResult struct {
	// DateTime is the time as a text, Timestamp the seconds since 1970 in the format unix.
	DateTime  string `json:"datetime,omitempty"`
	Timestamp int64  `json:"timestamp,omitempty"`
	Format    string `json:"format"`
	TimeZone  string `json:"timezone"`
}

// zoneOf returns the time zone of a name.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || zone == time.Local {
		return nil, Errorf("There is no time zone %q. Name one of the IANA database, such as Europe/Berlin.", name)
	}
	return zone, nil
}

func currentTimeIn(defaultZone string, call Call) (any, error) {
	asked := struct {
		TimeZone string `json:"timezone"`
		Format   string `json:"format"`
	}{TimeZone: defaultZone, Format: "iso8601"}
	if err := call.Decode(&asked); err != nil {
		return nil, err
	}
	zone, err := zoneOf(asked.TimeZone)
	if err != nil {
		return nil, err
	}
	now := call.Now.In(zone)
	result := timeResult{Format: asked.Format, TimeZone: zone.String()}
	switch asked.Format {
	case "unix":
		result.Timestamp = now.Unix()
	case "human":
		result.DateTime = now.Format("Monday, January 2, 2006 at 15:04:05 MST")
	default:
		result.DateTime = now.Format(time.RFC3339)
	}
	return result, nil
}
