package crash_test

import (
	"net/http"
	"slices"
	"strings"
)

// target is what a request is about.
type target struct {
	namespace, resource, name string
	// path is the resource, and the subresource if there is one.
	path string
}

// targetOf is the target of a request, if it is about something that a Turn is made of.
func targetOf(r *http.Request) (target, bool) {
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok {
		return target{}, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 || !isRun(parts[0]) {
		return target{}, false
	}
	t := target{namespace: parts[0], resource: parts[1], path: parts[1]}
	if len(parts) > 2 {
		t.name = parts[2]
	}
	if len(parts) > 3 {
		t.path += "/" + parts[3]
	}
	return t, slices.Contains(
		[]string{"sessions", "turns", "journalentries", "serviceaccounts", "jobs", "pods", "toolresults", "records"},
		t.resource,
	)
}
