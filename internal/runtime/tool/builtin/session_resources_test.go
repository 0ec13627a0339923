package builtin

import (
	"context"
	"regexp"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
)

// Rules: RES-01.
func TestTheToolsForResources(t *testing.T) {
	services := Services{Resources: resource.Of(record.New(memory.New(), record.Options{}),
		record.Session{Namespace: "default", Name: "demo", UID: "1"})}
	times := regexp.MustCompile(`,"created_at":"[^"]+","updated_at":"[^"]+"`)
	for n, test := range []struct{ tool, arguments, want string }{
		{"list_resources", `{}`, `{"resources":[]}`},
		{"register_resource", `{"id": "vm-1", "kind": "vm", "metadata": {"zone": "a"}}`,
			`{"id":"vm-1","status":"active","created":true}`},
		{"register_resource", `{"id": "tab", "kind": "browser", "status": "failed"}`,
			`{"id":"tab","status":"failed","created":true}`},
		{"register_resource", `{"id": "vm-1", "kind": "vm", "metadata": {"zone": "b"}}`,
			`{"id":"vm-1","status":"active"}`},
		{"update_resource", `{"id": "vm-1", "status": "completed"}`, `{"id":"vm-1","status":"completed"}`},
		{"update_resource", `{"id": "vm-2", "status": "completed"}`, `! The resource "vm-2" is not registered.`},
		{"get_resource", `{"id": "vm-1"}`, `{"id":"vm-1","kind":"vm","status":"completed","metadata":{"zone":"b"}}`},
		{"get_resource", `{"id": "vm-2"}`, `! The resource "vm-2" is not registered.`},
		{"list_resources", `{"kind": "browser", "status": "failed"}`,
			`{"resources":[{"id":"tab","kind":"browser","status":"failed"}]}`},
		{"list_resources", `{"kind": "browser", "status": "completed"}`, `{"resources":[]}`},
		{"deregister_resource", `{"id": "tab"}`, `{"existed":true}`},
		{"deregister_resource", `{"id": "tab"}`, `{"existed":false}`},
		{"register_resource", `{"id": "a\u0000", "kind": "vm"}`,
			`! "a\x00" cannot be the id: it must have 1 to 128 bytes of printable characters.`},
	} {
		cause := record.Cause{Step: int64(n + 1), Key: "turn/1-0"}
		outcome := call(t, services, cause, "session_resources", test.tool, test.arguments)
		got := "! " + outcome.Error
		if outcome.Result != nil {
			got = times.ReplaceAllString(*outcome.Result, "")
		}
		if got != test.want {
			t.Errorf("%s %s returns %s, want %s", test.tool, test.arguments, got, test.want)
		}
	}
}

// leasing has one lease.
type leasing lease.Identity

// Release implements Leases.
func (l leasing) Release(_ context.Context, of lease.Identity) (v1alpha1.LeaseState, error) {
	if of != lease.Identity(l) {
		return "", nil
	}
	return v1alpha1.LeaseStateCleaning, nil
}

// Rules: LEASE-02.
func TestALeaseIsReleasedByItsResource(t *testing.T) {
	services := Services{Leases: leasing{Provider: "p", Type: "vm", ExternalID: "1"}}
	for arguments, want := range map[string]string{
		`{"provider": "p", "type": "vm", "external_id": "1"}`: `{"state":"Cleaning"}`,
		`{"provider": "p", "type": "vm", "external_id": "2"}`: `This session has no lease on a vm "2" of p.`,
	} {
		outcome := call(t, services, record.Cause{}, "session_resources", "release_resource", arguments)
		got := outcome.Error
		if outcome.Result != nil {
			got = *outcome.Result
		}
		if got != want {
			t.Errorf("%s returns %s, want %s", arguments, got, want)
		}
	}
}
