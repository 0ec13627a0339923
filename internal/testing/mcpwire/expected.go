package mcpwire

import (
	"slices"

	"github.com/capstan-dev/capstan/internal/testing/site"
)

// Purpose is what Capstan has a client for.
type Purpose string

const (
	// Notices are listened to.
	Notices Purpose = "notices"
	// Discovery lists the tools.
	Discovery Purpose = "discovery"
	// Calls calls tools for one Session.
	Calls Purpose = "calls"
)

// PurposeOf is the purpose of a conversation by its requests; empty for none.
func PurposeOf(c Conversation) Purpose {
	switch {
	case c.Has("tools/call"):
		return Calls
	case c.Has("tools/list"):
		return Discovery
	case c.Has(listens) || slices.ContainsFunc(c, func(e Exchange) bool { return e.Request == "GET" }):
		return Notices
	}
	return ""
}

// ByPurpose are the conversations in messages; of several for one purpose the last.
func ByPurpose(messages []Message) map[Purpose]Conversation {
	found := map[Purpose]Conversation{}
	for _, c := range Conversations(messages) {
		found[PurposeOf(c)] = c
	}
	return found
}

// Expected are the conversations with the SDK's own server of a generation, from the creation of an MCPServer to its
// deletion: it is listened to, its tools are listed, and one of them is called twice, at most once each.
func Expected(g site.Generation) map[Purpose]Conversation {
	if g == site.Stateless {
		return map[Purpose]Conversation{
			Notices: {
				{"POST server/discover", false, "200, result"},
				{"POST subscriptions/listen", false, "200, notifications/subscriptions/acknowledged"},
				{"POST notifications/cancelled", false, "202"},
			},
			Discovery: {
				{"POST server/discover", false, "200, result"},
				{"POST tools/list", false, "200, result"},
			},
			Calls: {
				{"POST server/discover", false, "200, result"},
				{"POST tools/call", false, "200, result"},
				{"POST tools/call", false, "200, result"},
			},
		}
	}
	// The client learns by its first request that the server has no version without sessions.
	begin := Conversation{
		{"POST server/discover", false, "200, result"},
		{"POST initialize", false, "200 with a session, result"},
	}
	initialized := Exchange{"POST notifications/initialized", true, "202"}
	end := Exchange{"DELETE", true, "204"}
	return map[Purpose]Conversation{
		Notices: slices.Concat(begin, Conversation{{"GET", true, "200"}, initialized, end}),
		Discovery: slices.Concat(begin, Conversation{
			initialized, {"POST tools/list", true, "200, result"}, end,
		}),
		Calls: slices.Concat(begin, Conversation{
			initialized,
			{"POST tools/call", true, "200, result"},
			{"POST ping", true, "200, result"},
			{"POST tools/call", true, "200, result"},
			end,
		}),
	}
}
