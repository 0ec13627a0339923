package builtin

import (
	"context"
	"time"
	_ "time/tzdata" // The image of the manager has no time zones.
)

// currentTime lets the model look at the clock.
var currentTime = Capability{
	Name: "current_time",
	Tools: []Tool{{
		Name:        "get_current_time",
		Description: "Returns the current date and time, in any time zone.",
		InputSchema: `{
  "type": "object",
  "properties": {
    "timezone": {
      "type": "string",
      "maxLength": 64,
      "description": "Name of the time zone in the IANA database, such as Europe/Berlin. Default: UTC."
    },
    "format": {
      "type": "string",
      "enum": ["iso8601", "unix", "human"],
      "description": "iso8601 (default), unix for the seconds since 1970, or human for a text in English."
    }
  }
}`,
		Run: getCurrentTime,
	}},
}

// timeResult is what get_current_time returns.
type timeResult struct {
	// DateTime is the time as a text, Timestamp the seconds since 1970 in the format unix.
	DateTime  string `json:"datetime,omitempty"`
	Timestamp int64  `json:"timestamp,omitempty"`
	Format    string `json:"format"`
	TimeZone  string `json:"timezone"`
}

func getCurrentTime(_ context.Context, call Call) (any, error) {
	asked := struct {
		TimeZone string `json:"timezone"`
		Format   string `json:"format"`
	}{TimeZone: "UTC", Format: "iso8601"}
	if err := call.Decode(&asked); err != nil {
		return nil, err
	}
	zone, err := time.LoadLocation(asked.TimeZone)
	if err != nil || zone == time.Local {
		return nil, Errorf("There is no time zone %q. Name one of the IANA database, such as Europe/Berlin.", asked.TimeZone)
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
