package kit_test

import "strings"

// changing are the keys of what is another each time.
var changing = []string{
	"id",
	"message_id",
	"turn_id",
	"input_message_id",
	"final_message_id",
	"exec_id",
	"fence",
	"response_id",
	"duration_ms",
	"time_to_first_token_ms",
	"timeToFirstToken",
	"created_at",
	"metadata",
	"sessionUID",
	"session_id",
	"podUID",
	"podName",
	"toolUID",
	"callDigest",
	"startedAt",
	"finishedAt",
	"openedAtOrdinal",
	"approveBy",
	"notBefore",
	"observedGeneration",
	"conditions",
}

func strip(value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range changing {
			if id, ok := v[key].(string); key == "id" && ok && strings.Contains(id, "-") && len(id) < 8 {
				continue // The runtime's id of a call.
			}
			delete(v, key)
		}
		for key, member := range v {
			if name, ok := member.(string); ok && strings.HasPrefix(name, "agent-") {
				delete(v, key) // The name of a sub-agent.
			}
			strip(member)
		}
	case []any:
		for _, item := range v {
			strip(item)
		}
	}
}
