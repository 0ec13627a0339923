package builtin

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/lease"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

// Services are those of the Session of a call (CTX-01). Each is an interface of what tools need of it, and nil where
// the host does not provide it: using tells the model then which one is missing. Both hosts fill them in at one place,
// package builtintool, so that they provide the same ones (CTX-06).
//
// A further service is a field here, a line there, and the tools that use it.
type Services struct {
	// Databases are the SQL databases of the Session.
	Databases Databases
	// Files are those of the Session.
	Files Files
	// Images are those of the Session.
	Images Images
	// Leases are those on what the Session has created outside of the cluster.
	Leases Leases
	// Memories are those of the Session.
	Memories Memories
	// SharedMemories returns those of the Session that a configuration names, or the own ones if it shares them.
	SharedMemories func(ctx context.Context, c memory.Config) (Memories, error)
	// Resources are what runs beside the Session.
	Resources Resources
	// Storage has the values of the Session by key.
	Storage Storage
	// Secrets are those that users have set for the Session.
	Secrets Secrets
	// Schedules are those that models create for the Session.
	Schedules Schedules
	// Tasks are the background tasks of the Session.
	Tasks Tasks
	// Title is that of the Session.
	Title Title
	// Web sends requests to where the Session may send one.
	Web Web
}

// Databases are what tools use of the SQL databases of a Session (SVC-05).
type Databases interface {
	List(ctx context.Context) ([]sessiondb.Info, error)
	Create(ctx context.Context, cause record.Cause, name string) (sessiondb.Info, error)
	Delete(ctx context.Context, cause record.Cause, name string) error
	Query(ctx context.Context, name string, s sessiondb.Statement, rows int) (*sessiondb.Rows, error)
	Schema(ctx context.Context, name string) (*sessiondb.Tables, error)
	Execute(ctx context.Context, cause record.Cause, name string, s sessiondb.Statement) (*sessiondb.Executed, error)
}

// Files are what tools use of the files of a Session (FS-01).
type Files interface {
	Read(ctx context.Context, path string) (*sessionfs.File, error)
	Stat(ctx context.Context, path string) (*sessionfs.Info, error)
	List(ctx context.Context, path string) ([]sessionfs.Info, error)
	Grep(ctx context.Context, text, path string) (*sessionfs.Matches, error)
	Write(
		ctx context.Context, cause record.Cause, path, content string, encoding sessionfs.Encoding,
	) (*sessionfs.Written, error)
	Edit(
		ctx context.Context, cause record.Cause, path, before, after string, everywhere bool,
	) (*sessionfs.Written, error)
	Mkdir(ctx context.Context, cause record.Cause, path string) (*sessionfs.Written, error)
	Delete(ctx context.Context, cause record.Cause, path string, recursive bool) (bool, error)
}

// Images are what tools use of the images of a Session (IMG-01).
type Images interface {
	List(ctx context.Context) ([]sessionimage.Info, error)
	// Stat describes an image; nil if it does not exist.
	Stat(ctx context.Context, id string) (*sessionimage.Info, error)
	Create(ctx context.Context, cause record.Cause, draft sessionimage.Draft) (*sessionimage.Info, error)
	Delete(ctx context.Context, cause record.Cause, id string) (existed bool, err error)
}

// Leases are what tools use of the leases of a Session (LEASE-02).
type Leases interface {
	// Release returns the state of the resource; empty if the Session has no lease on it.
	Release(ctx context.Context, resource lease.Identity) (v1alpha1.LeaseState, error)
}

// Memories are what tools use of the memories of a Session (SVC-03).
type Memories interface {
	Create(ctx context.Context, cause record.Cause, now time.Time, draft memory.Draft) (*memory.Memory, error)
	Recall(ctx context.Context, query memory.Query) (*memory.Recalled, error)
	Forget(ctx context.Context, cause record.Cause, now time.Time, id string) (existed bool, err error)
}

// Resources are what tools use of the registry of resources of a Session (RES-01).
type Resources interface {
	Register(ctx context.Context, cause record.Cause, draft resource.Draft) (*resource.Changed, error)
	// UpdateStatus returns nil for an unknown id, and so does Get.
	UpdateStatus(ctx context.Context, cause record.Cause, id string, status resource.Status) (*resource.Changed, error)
	Get(ctx context.Context, id string) (*resource.Resource, error)
	List(ctx context.Context, filter resource.Filter) ([]resource.Resource, error)
	Deregister(ctx context.Context, cause record.Cause, id string) (existed bool, err error)
}

// Storage is what tools use of the values of a Session (KV-01).
type Storage interface {
	Set(ctx context.Context, cause record.Cause, key, value string) (*storage.Written, error)
	Get(ctx context.Context, key string) (*storage.Value, error)
	Delete(ctx context.Context, cause record.Cause, key string) (existed bool, err error)
	List(ctx context.Context, prefix string) ([]storage.Info, error)
}

// Secrets are what tools use of the secrets of a Session (KV-02). None of it has a value.
type Secrets interface {
	Names(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, cause record.Cause, name string) (existed bool, err error)
}

// Schedules are what tools use of the Schedules of a Session (SCHED-01).
type Schedules interface {
	Create(ctx context.Context, request schedule.Request) (*schedule.Entry, error)
	List(ctx context.Context) ([]schedule.Entry, error)
	// Cancel suspends a Schedule; nil for none of this name.
	Cancel(ctx context.Context, name string) (*schedule.Entry, error)
}

// Tasks are what tools use of the background tasks of a Session (TASK-01).
type Tasks interface {
	List(ctx context.Context, activeOnly bool) ([]background.Task, error)
	Get(ctx context.Context, id string) (*background.Task, error)
	Result(ctx context.Context, id string) (string, error)
	// Cancel requests that a task ends, and makes the host act on it.
	Cancel(ctx context.Context, id string) (*background.Task, error)
}

// Title is what tools may change of a Session: its title, and nothing else (CTX-02).
type Title interface {
	Set(ctx context.Context, text string) error
}

// Web sends requests to where a Session may send one (CTX-05).
type Web interface {
	Fetch(ctx context.Context, request egress.Request) (*egress.Response, error)
}

// FetchFunc is a function that is a Web.
type FetchFunc func(ctx context.Context, request egress.Request) (*egress.Response, error)

// Fetch implements Web.
func (f FetchFunc) Fetch(ctx context.Context, request egress.Request) (*egress.Response, error) {
	return f(ctx, request)
}

// using returns the Run of a tool that needs a service, by its name in messages, and has arguments. The model is shown
// the errors that it can correct.
func using[S comparable, A any](
	name string, of func(Services) S, run func(ctx context.Context, call Call, service S, arguments A) (any, error),
) func(context.Context, Call) (any, error) {
	return func(ctx context.Context, call Call) (any, error) {
		var none S
		service := of(call.Services)
		if service == none {
			return nil, Errorf("This session has no %s.", name)
		}
		var arguments A
		if err := call.Decode(&arguments); err != nil {
			return nil, err
		}
		result, err := run(ctx, call, service, arguments)
		var explained *record.ExplainedError
		if errors.As(err, &explained) {
			return nil, Errorf("%s", explained.Error())
		}
		return result, err
	}
}
