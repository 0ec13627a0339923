package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

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
		{
			"register_resource", `{"id": "vm-1", "kind": "vm", "metadata": {"zone": "a"}}`,
			`{"id":"vm-1","status":"active","created":true}`,
		},
		{
			"register_resource", `{"id": "tab", "kind": "browser", "status": "failed"}`,
			`{"id":"tab","status":"failed","created":true}`,
		},
		{
			"register_resource", `{"id": "vm-1", "kind": "vm", "metadata": {"zone": "b"}}`,
			`{"id":"vm-1","status":"active"}`,
		},
		{"update_resource", `{"id": "vm-1", "status": "completed"}`, `{"id":"vm-1","status":"completed"}`},
		{"update_resource", `{"id": "vm-2", "status": "completed"}`, `! The resource "vm-2" is not registered.`},
		{"get_resource", `{"id": "vm-1"}`, `{"id":"vm-1","kind":"vm","status":"completed","metadata":{"zone":"b"}}`},
		{"get_resource", `{"id": "vm-2"}`, `! The resource "vm-2" is not registered.`},
		{
			"list_resources", `{"kind": "browser", "status": "failed"}`,
			`{"resources":[{"id":"tab","kind":"browser","status":"failed"}]}`,
		},
		{"list_resources", `{"kind": "browser", "status": "completed"}`, `{"resources":[]}`},
		{"deregister_resource", `{"id": "tab"}`, `{"existed":true}`},
		{"deregister_resource", `{"id": "tab"}`, `{"existed":false}`},
		{
			"register_resource", `{"id": "a\u0000", "kind": "vm"}`,
			`! "a\x00" cannot be the id: it must have 1 to 128 bytes of printable characters.`,
		},
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

// Rules: RES-01.
func TestTheNewestResourcesAreListed(t *testing.T) {
	now := noon
	services := Services{Resources: resource.Of(record.New(memory.New(), record.Options{Clock: func() time.Time {
		now = now.Add(time.Second)
		return now
	}}), record.Session{Namespace: "default", Name: "demo", UID: "1"})}
	list := func(arguments string) (ids []string, omitted int, size int) {
		t.Helper()
		outcome := call(t, services, record.Cause{Step: 1_000, Key: "turn/1-0"}, "session_resources", "list_resources",
			arguments)
		var listed struct {
			Resources []struct{ ID string }
			Omitted   int
		}
		if outcome.Result == nil || json.Unmarshal([]byte(*outcome.Result), &listed) != nil {
			t.Fatalf("the outcome is %+v", outcome)
		}
		for _, r := range listed.Resources {
			ids = append(ids, r.ID)
		}
		return ids, listed.Omitted, len(*outcome.Result)
	}
	register := func(id, text string) {
		t.Helper()
		_, err := services.Resources.Register(t.Context(), record.Cause{Step: int64(now.Sub(noon)), Key: "turn/1-0"},
			resource.Draft{ID: id, Kind: "vm", Metadata: map[string]string{"note": text}})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 60 {
		register(fmt.Sprintf("vm-%02d", i), "x")
	}
	if ids, omitted, _ := list(`{}`); len(ids) != 50 || ids[0] != "vm-59" || ids[49] != "vm-10" || omitted != 10 {
		t.Errorf("%d are omitted of %v", omitted, ids)
	}
	if ids, omitted, _ := list(`{"limit": 2, "kind": "vm"}`); len(ids) != 2 || ids[1] != "vm-58" || omitted != 58 {
		t.Errorf("%d are omitted of %v", omitted, ids)
	}
	for i := range 40 {
		register(fmt.Sprintf("wide-%02d", i), strings.Repeat("\x01", 400))
	}
	ids, omitted, size := list(`{"limit": 100}`)
	if size > maxListedBytes+1024 || len(ids)+omitted != 100 || len(ids) < 10 || ids[0] != "wide-39" {
		t.Errorf("%d bytes, and %d are omitted of %v", size, omitted, ids)
	}
}
