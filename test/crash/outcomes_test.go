package crash_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// waiting are conversations that wait for a client beside Jobs that have settled, whose outcomes only the journal has
// from then on.
var waiting = slices.Concat(
	[]scenario{
		{
			name: "Jobs that have settled and are deleted, and a client that is slow",
			simulation: builder.Script(
				"{{tool:work}}, {{tool:pay}}, {{tool:look}}, {{tool:ask-ann}}",
				builder.Calls("work", "pay", "look", "ask-ann"),
			),
			tools:   settledBesideAClient,
			respond: respondAtLength,
			drive: onceKept(func(ctx context.Context, r *run) error {
				err := r.user.DeleteAllOf(
					ctx,
					&batchv1.Job{},
					client.InNamespace(r.namespace),
					client.PropagationPolicy(metav1.DeletePropagationBackground),
				)
				if err != nil {
					return err
				}
				return r.user.Create(ctx, r.toolResult("ann", "1-3", "yes"))
			}, "1-0", "1-1", "1-2"),
		},
		{
			name: "Jobs that have settled, an approval and a client that are slow",
			simulation: builder.Script(
				"{{tool:work}}, {{tool:refund}}, {{tool:ask-ann}}",
				builder.Calls("work", "refund", "ask-ann"),
			),
			tools: given(
				builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(),
				approved(builder.JobTool("refund", v1alpha1.SideEffectAtMostOnce).Obj()),
				builder.ClientTool("ask-ann").Obj(),
			),
			drive: onceKept(func(ctx context.Context, r *run) error {
				if err := r.decide(ctx, "1-1", v1alpha1.DecisionApprove); err != nil {
					return err
				}
				return onceKept(respondTo("1-2"), "1-0", "1-1")(ctx, r)
			}, "1-0"),
		},
	},
	[]scenario{{
		name:       "long outputs that are kept as files, and differ each time",
		simulation: builder.Script("done", builder.Calls("look", "pay")),
		tools: given(
			builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj(),
			builder.HTTPTool("pay", v1alpha1.SideEffectAtMostOnce, "").Obj(),
		),
		respond: respondDifferently,
		session: func(s *v1alpha1.SessionSpec) {
			s.Capabilities = []v1alpha1.CapabilityReference{{Builtin: "session_file_system"}}
		},
		drive:  holdToTheFiles("1-0", "1-1"),
		varies: true,
	}, {
		name:       "Jobs that get files and return others",
		simulation: builder.Script("done", builder.Calls("work", "pay")),
		tools: given(
			sharing(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
			sharing(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		),
		session: func(s *v1alpha1.SessionSpec) {
			s.InitialFiles = []v1alpha1.InitialFile{{Path: "/in/a", Content: "given"}}
		},
		tool:   returnFiles,
		drive:  holdToReturned("1-0", "1-1"),
		varies: true,
	}, {
		name:       "a Job that returns files is evicted and runs again",
		simulation: builder.Script("done", builder.Calls("work")),
		tools:      given(sharing(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())),
		session: func(s *v1alpha1.SessionSpec) {
			s.InitialFiles = []v1alpha1.InitialFile{{Path: "/in/a", Content: "given"}}
		},
		tool: func(r *run, call capstantest.Call) string {
			if call.Attempt == 1 {
				call.Files["/out/lost"] = []byte("of the first attempt")
				r.toolStarted()
				<-call.Context.Done()
			}
			return returnFiles(r, call)
		},
		drive: func(ctx context.Context, r *run) error {
			if err := evictOnceRunning(ctx, r); err != nil {
				return err
			}
			return holdToReturned("1-0")(ctx, r)
		},
		varies: true,
	}},
	threeEnds("Jobs that have settled, and a client that does not answer", scenario{
		simulation: builder.Script(
			"{{tool:work}}, {{tool:pay}}, {{tool:look}}, {{tool:ask-ann}}",
			builder.Calls("work", "pay", "look", "ask-ann"),
		),
		tools: settledBesideAClient,
		ripe:  func(r *run) error { return r.kept("1-0", "1-1", "1-2") },
	}),
)

func settledBesideAClient() []*v1alpha1.Tool {
	return given(
		builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj(),
		builder.HTTPTool("look", v1alpha1.SideEffectPure, "").Obj(),
		builder.ClientTool("ask-ann").Obj(),
	)()
}

// kept reports whether the journal has the outcomes of calls of the first Turn, but for those that were not executed.
func (r *run) kept(ids ...string) error {
	turn := r.seen.turn(r.namespace, "demo-1")
	for _, id := range ids {
		if r.waits(v1alpha1.ToolCallStateNotExecuted, id) == nil {
			continue // A fault has kept its Job from being created.
		}
		known := slices.ContainsFunc(r.seen.snapshot(r.namespace).entries, func(at version[*written]) bool {
			s := at.object.Spec
			return s.Turn != nil && s.Turn.UID == turn.UID &&
				slices.ContainsFunc(s.Outcomes, func(c journal.SettledCall) bool { return c.ID == id })
		})
		if !known {
			return errors.New("the journal has no outcome of call " + id + ": " + callsOf(turn))
		}
	}
	return nil
}

// onceKept does something when the journal has the outcomes of calls.
func onceKept(do func(context.Context, *run) error, calls ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := awaitFor(ctx, r.patience, func() error { return r.kept(calls...) }); err != nil {
			return err
		}
		return do(ctx, r)
	}
}

// checkOutcomes checks that the entry that closes a step has the outcomes that the journal had recorded before.
func (e *evidence) checkOutcomes(v *findings) {
	for _, closed := range e.closings() {
		if end := closed.entry.Transition.Error; end != nil && end.Code == v1alpha1.ErrorCodeJournalFull {
			continue // The journal has room for the start of each text only.
		}
		first := map[string]journal.SettledCall{}
		for _, at := range e.entries {
			s := at.object.Spec
			if s.Turn == nil || s.Turn.UID != closed.turn.UID || s.Step != closed.entry.Step ||
				s.Ordinal >= closed.entry.Ordinal {
				continue
			}
			for _, call := range s.Outcomes {
				if _, known := first[call.ID]; !known {
					first[call.ID] = call
				}
			}
		}
		for id, call := range first {
			completed, ok := completedIn(closed.entry, id)
			if !ok {
				continue // Several entries hold it.
			}
			if completed.Success != (call.State == v1alpha1.ToolCallStateSucceeded) ||
				(call.Result != nil && textOf(completed) != *call.Result) {
				v.fail(
					outcomeRecorded,
					"the journal had call %s of Turn %s as %s before, and entry %d has success %t, result %.80q, error "+
						"%.80q",
					id,
					closed.turn.Name,
					call.State,
					closed.entry.Ordinal,
					completed.Success,
					textOf(completed),
					completed.Error,
				)
			}
		}
	}
}

// respondDifferently is a server that responds with another long text each time.
func respondDifferently(context.Context, *run, string) string {
	return strings.Repeat(uuid.NewString()+"\n", 3_000)
}

// sharing makes a Job tool get the files in /in and return those in /out.
func sharing(tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Job.Files = &v1alpha1.JobFiles{
		Inputs: []v1alpha1.JobFilePath{"/in"}, Outputs: []v1alpha1.JobFilePath{"/out"},
	}
	return tool
}

// returnFiles is a tool that returns a file above 4 KiB with what it has got, and the same as its result.
func returnFiles(_ *run, call capstantest.Call) string {
	text := fmt.Sprintf("attempt %d was %s %s", call.Attempt, call.Files["/in/a"], uuid.NewString())
	call.Files["/out/"+call.ID] = []byte(text + strings.Repeat(".", 5_000))
	return text
}

// filesOf are the files of the Session of a run.
func (r *run) filesOf() (*sessionfs.FS, error) {
	session := r.seen.session(r.namespace)
	objects, err := kubernetes.ForConfig(config, nil)
	if err != nil {
		return nil, err
	}
	return sessionfs.New(record.New(objects, record.Options{}),
		sessionfs.Session{Namespace: r.namespace, Name: session.Name, UID: session.UID}, nil), nil
}

// holdToReturned checks, when the Turn has ended, that the Session has the file of each call that has succeeded, from
// the attempt that the result is of, and no file of another attempt.
func holdToReturned(calls ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		return r.await(ctx, func() error {
			if err := hasEnded(r); err != nil {
				return err
			}
			files, err := r.filesOf()
			if err != nil {
				return err
			}
			if lost, err := files.Stat(ctx, "/out/lost"); err != nil || lost != nil {
				return errors.Join(err, hopeless{errors.New("the Session has a file of an attempt that did not end")})
			}
			for _, call := range calls {
				if err := r.returned(ctx, files, call); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// returned checks that the Session has the file that a call has returned, if the call has succeeded.
func (r *run) returned(ctx context.Context, files *sessionfs.FS, call string) error {
	for _, at := range r.seen.snapshot(r.namespace).entries {
		completed, found := completedIn(&at.object.Spec, call)
		if !found || !completed.Success {
			continue
		}
		text := textOf(completed)
		if !strings.Contains(text, " was given ") || strings.Contains(text, "[Not copied") {
			return hopeless{fmt.Errorf("call %s has returned %q", call, text)}
		}
		file, err := files.Read(ctx, "/out/"+call)
		if err != nil {
			return err
		}
		if file == nil || !strings.HasPrefix(file.Content, text+"...") {
			return hopeless{fmt.Errorf("the Session does not have the file of call %s, which returned %q", call, text)}
		}
	}
	return nil
}

// holdToTheFiles checks, when the Turn has ended, that a result which names a file is the start of that file.
func holdToTheFiles(calls ...string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		return r.await(ctx, func() error {
			if err := hasEnded(r); err != nil {
				return err
			}
			files, err := r.filesOf()
			if err != nil {
				return err
			}
			for _, call := range calls {
				if err := r.startsItsFile(ctx, files, call); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// startsItsFile checks that the result of a call of the first Turn is the start of the file that it names, if any.
func (r *run) startsItsFile(ctx context.Context, files *sessionfs.FS, call string) error {
	for _, at := range r.seen.snapshot(r.namespace).entries {
		completed, found := completedIn(&at.object.Spec, call)
		if !found || !completed.Success {
			continue
		}
		head, cut := result.Uncut(textOf(completed))
		_, note, kept := strings.Cut(textOf(completed)[len(head):], " in the file ")
		if !cut || !kept {
			continue // A fault has kept it from being written.
		}
		path, _, _ := strings.Cut(note, ":")
		file, err := files.Read(ctx, path)
		if err != nil {
			return err
		}
		if file == nil || !strings.HasPrefix(file.Content, head) {
			return hopeless{fmt.Errorf("the result of call %s is not the start of %s", call, path)}
		}
	}
	return nil
}
