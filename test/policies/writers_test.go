package policies_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// everything is a rule that platform teams like to write for a tenant.
var everything = rbacv1.PolicyRule{APIGroups: []string{"capstan.dev"}, Resources: []string{"*"}, Verbs: []string{"*"}}

var _ = Describe("The policy submitted-by", func() {
	It("lets users submit in their own name only", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-edit")
		accepts(creating(ctx, user, newToolResult("answer", name)))
		accepts(creating(ctx, user, newToolResult("answer", "")))
		refuses(creating(ctx, user, newToolResult("answer", "another-user")),
			"submittedBy must be your own user name, "+name+". Set it to that name, or omit it.")
	})
})

var _ = Describe("The policy approvals", func() {
	const refusal = `you are not allowed to approve or reject calls in namespace "team-a": a decision requires the verb ` +
		`approve ` +
		"on toolresults in capstan.dev, which the ClusterRole capstan-approve has."

	DescribeTable("lets authorized users decide, in their own name", func(ctx context.Context, roles ...string) {
		user, name := newUser(ctx, roles...)
		for _, decision := range []v1alpha1.Decision{v1alpha1.DecisionApprove, v1alpha1.DecisionReject} {
			given := newDecision("decision", name)
			given.Spec.Decision = decision
			accepts(creating(ctx, user, given))
		}
		refuses(creating(ctx, user, newDecision("decision", "another-user")), "submittedBy must be your own user name")
		refuses(creating(ctx, user, newDecision("decision", "")), "a decision requires submittedBy")
	},
		func(roles ...string) string { return fmt.Sprint(roles) },
		Entry(nil, "capstan-approve"),
		Entry(nil, "capstan-admin"),
		Entry(nil, "capstan-edit", "capstan-approve"),
	)

	DescribeTable("refuses users who may create ToolResults and have no permission to decide", func(
		ctx context.Context, roles ...string,
	) {
		user, name := newUser(ctx, roles...)
		accepts(creating(ctx, user, newToolResult("answer", name)))
		refuses(creating(ctx, user, newDecision("decision", name)), refusal)
	},
		func(roles ...string) string { return fmt.Sprint(roles) },
		Entry(nil, "capstan-edit"),
		Entry(nil, "capstan-edit", "capstan-tools", clusterEdit),
	)

	It("checks the permission in the namespace of the Turn, and not in another one", func(ctx context.Context) {
		user, name := newUser(ctx, "capstan-approve")
		accepts(creating(ctx, user, newDecision("decision", name)))
		Expect(admin.Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: teamB, GenerateName: "user-"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capstan-edit"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
		})).To(Succeed())
		accepts(creating(ctx, user, inTeamB(newToolResult("answer", name))))
		refuses(
			creating(ctx, user, inTeamB(newDecision("decision", name))),
			`you are not allowed to approve or reject calls in namespace "team-b"`,
		)
	})

	It(
		"does not depend on the writer of the Turn: a right to everything in capstan.dev includes the right to approve",
		func(ctx context.Context) {
			user, name := newUser(ctx, newRole(ctx, everything))
			accepts(creating(ctx, user, newDecision("decision", name)))
		},
	)
})

var _ = Describe("The policy journal-entries", func() {
	const refusal = "only the manager may write journal entries. They are deleted with their Session."

	It("lets only the manager write, whatever the role of a user", func(ctx context.Context) {
		user, _ := newUser(ctx, newRole(ctx, everything))
		accepts(creating(ctx, as(managerUser), newEntry("entry")))
		refuses(creating(ctx, user, newEntry("entry")), refusal)
		refuses(creating(ctx, admin, newEntry("entry")), refusal)

		entry := stored(ctx, suite.Client(impersonating(managerUser, "system:masters")), newEntry("kept"))
		DeferCleanup(func(ctx context.Context) error {
			return as("system:serviceaccount:kube-system:generic-garbage-collector").Delete(ctx, entry)
		})
		refuses(
			updating(ctx, user, entry, func(e *v1alpha1.JournalEntry) { e.Labels = map[string]string{"a": "b"} }),
			refusal,
		)
		refuses(func() error { return user.Delete(ctx, newEntry("kept"), client.DryRunAll) }, refusal)
		refuses(func() error {
			return user.DeleteAllOf(ctx, newEntry("kept"), client.InNamespace(teamA), client.DryRunAll)
		}, refusal)
	})

	DescribeTable("lets the cluster delete them", func(ctx context.Context, account string) {
		entry := stored(ctx, suite.Client(impersonating(managerUser, "system:masters")), newEntry("to-go"))
		Expect(as(account).Delete(ctx, entry)).To(Succeed())
	},
		Entry("with their Session", "system:serviceaccount:kube-system:generic-garbage-collector"),
		Entry("with their namespace", "system:serviceaccount:kube-system:namespace-controller"),
	)
})

var _ = Describe("The policy records", func() {
	const refusal = "only the manager may write Records. They are deleted with their Session, MCPServer or Secret."

	It("lets only the manager write, whatever the role of a user", func(ctx context.Context) {
		user, _ := newUser(ctx, newRole(ctx, everything))
		for _, of := range []v1alpha1.RecordType{v1alpha1.RecordTypeIndex, v1alpha1.RecordTypeBlob} {
			accepts(creating(ctx, as(managerUser), newRecord("record", of)))
			refuses(creating(ctx, user, newRecord("record", of)), refusal)
			refuses(creating(ctx, admin, newRecord("record", of)), refusal)
		}
		index := stored(ctx, suite.Client(impersonating(managerUser, "system:masters")),
			newRecord("kept", v1alpha1.RecordTypeIndex))
		DeferCleanup(func(ctx context.Context) error {
			return as("system:serviceaccount:kube-system:generic-garbage-collector").Delete(ctx, index)
		})
		next := func(r *v1alpha1.Record) { r.Spec.Revision, r.Spec.Payload = 2, "H4sIAAAAAAAB" }
		accepts(updating(ctx, as(managerUser), index, next))
		refuses(updating(ctx, user, index, next), refusal)
		refuses(func() error { return user.Delete(ctx, index, client.DryRunAll) }, refusal)
		refuses(func() error {
			return user.DeleteAllOf(ctx, index, client.InNamespace(teamA), client.DryRunAll)
		}, refusal)
	})

	It("lets the manager delete blobs alone", func(ctx context.Context) {
		writer := suite.Client(impersonating(managerUser, "system:masters"))
		index := stored(ctx, writer, newRecord("index", v1alpha1.RecordTypeIndex))
		DeferCleanup(func(ctx context.Context) error {
			return as("system:serviceaccount:kube-system:namespace-controller").Delete(ctx, index)
		})
		refuses(func() error { return as(managerUser).Delete(ctx, index) },
			"the manager may delete only blobs. An index is deleted with its Session, MCPServer or Secret.")
		blob := stored(ctx, writer, newRecord("blob", v1alpha1.RecordTypeBlob))
		Expect(as(managerUser).Delete(ctx, blob)).To(Succeed())
	})

	It("lets a user write no Record of a Secret, and the manager none without that Secret", func(ctx context.Context) {
		record := newRecord("payments", v1alpha1.RecordTypeIndex)
		record.Spec.Session, record.Spec.Secret = "", "wallet"
		record.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "wallet", UID: "1"}}
		accepts(creating(ctx, as(managerUser), record))
		user, _ := newUser(ctx, newRole(ctx, everything))
		refuses(creating(ctx, user, record), refusal)
		record.OwnerReferences[0].Name = "other"
		refuses(creating(ctx, as(managerUser), record),
			"a Record must be owned by its Session, its MCPServer or its Secret.")
	})

	It("lets no Record be without its Session", func(ctx context.Context) {
		for _, owners := range [][]metav1.OwnerReference{
			nil,
			{{APIVersion: "v1", Kind: "ConfigMap", Name: "demo", UID: "1"}},
			{{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: "other", UID: "1"}},
		} {
			orphan := newRecord("orphan", v1alpha1.RecordTypeBlob)
			orphan.OwnerReferences = owners
			refuses(
				creating(ctx, as(managerUser), orphan),
				"a Record must be owned by its Session, its MCPServer or its Secret.",
			)
		}
	})
})

var _ = Describe("The policy session-deletions", func() {
	It("lets no journal stay without its Session", func(ctx context.Context) {
		const (
			refusal   = "the journal of a Session is deleted with it. Delete the Session without --cascade=orphan."
			finalizer = "the journal of a Session is deleted with it. Remove the finalizer orphan."
		)
		user, _ := newUser(ctx, "capstan-edit")
		session := stored(ctx, user, builder.Session("kept").In(teamA).Obj())
		orphan := client.PropagationPolicy(metav1.DeletePropagationOrphan)
		for _, c := range []client.Client{user, admin} {
			refuses(func() error { return c.Delete(ctx, session.DeepCopy(), orphan, client.DryRunAll) }, refusal)
			refuses(func() error {
				return c.DeleteAllOf(ctx, &v1alpha1.Session{}, client.InNamespace(teamA), orphan, client.DryRunAll)
			}, refusal)
			refuses(func() error {
				orphans := &metav1.DeleteOptions{OrphanDependents: ptr.To(true)} //nolint:staticcheck // old clients send it
				legacy := &client.DeleteOptions{Raw: orphans, DryRun: []string{metav1.DryRunAll}}
				return c.Delete(ctx, session.DeepCopy(), legacy)
			}, refusal)
			refuses(
				updating(ctx, c, session, func(s *v1alpha1.Session) { s.Finalizers = []string{metav1.FinalizerOrphanDependents} }),
				finalizer,
			)
			accepts(updating(ctx, c, session, func(s *v1alpha1.Session) { s.Finalizers = []string{"example.org/held"} }))
			for _, policy := range []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground,
			} {
				accepts(func() error {
					return c.Delete(ctx, session.DeepCopy(), client.PropagationPolicy(policy), client.DryRunAll)
				})
			}
			accepts(func() error { return c.Delete(ctx, session.DeepCopy(), client.DryRunAll) })
		}
	})
})

var _ = Describe("A Session on hold", func() {
	const (
		kept    = "the Session and its journal are on hold (annotation capstan.dev/hold)."
		guarded = "Changing the annotation capstan.dev/hold requires the verb release on sessions"
	)
	hold := func(s *v1alpha1.Session) { s.Annotations = map[string]string{v1alpha1.AnnotationHold: "audit 7"} }
	deleting := func(ctx context.Context, c client.Client, session *v1alpha1.Session) func() error {
		return func() error { return c.Delete(ctx, session.DeepCopy(), client.DryRunAll) }
	}

	It("is kept from users who may only edit, with its journal", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-edit")
		approver, _ := newUser(ctx, "capstan-edit", "capstan-approve")
		session := builder.Session("evidence").In(teamA).Obj()
		hold(session)
		stored(ctx, user, session)
		for _, c := range []client.Client{user, approver} {
			refuses(deleting(ctx, c, session), kept)
			refuses(func() error {
				return c.DeleteAllOf(ctx, &v1alpha1.Session{}, client.InNamespace(teamA), client.DryRunAll)
			}, kept)
			refuses(updating(ctx, c, session, func(s *v1alpha1.Session) { s.Annotations = nil }), guarded)
			refuses(
				updating(ctx, c, session, func(s *v1alpha1.Session) { s.Annotations[v1alpha1.AnnotationHold] = "" }),
				guarded,
			)
			accepts(updating(ctx, c, session, func(s *v1alpha1.Session) { s.Annotations["example.org/note"] = "x" }))
		}
		accepts(func() error {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":7}}`))
			return as(managerUser).Status().Patch(ctx, session.DeepCopy(), patch, client.DryRunAll)
		})
	})

	It("is released by an administrator, and with its namespace", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-admin")
		session := builder.Session("released").In(teamA).Obj()
		hold(session)
		stored(ctx, user, session)
		accepts(deleting(ctx, user, session))
		accepts(updating(ctx, user, session, func(s *v1alpha1.Session) { s.Annotations = nil }))
		accepts(deleting(ctx, as("system:serviceaccount:kube-system:namespace-controller"), session))
	})

	It("can be kept by its users with an annotation, and is deleted without it", func(ctx context.Context) {
		user, _ := newUser(ctx, "capstan-edit")
		session := stored(ctx, user, builder.Session("plain").In(teamA).Obj())
		accepts(updating(ctx, user, session, hold))
		accepts(deleting(ctx, user, session))
	})
})

var _ = Describe("The policy statuses", func() {
	It("lets only the manager write status, whatever the role of a user", func(ctx context.Context) {
		const refusal = "only the manager may write status. Change the spec instead."
		user, _ := newUser(ctx, newRole(ctx, everything))
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"observedGeneration":7}}`))
		for _, object := range []client.Object{
			builder.Harness("said").In(teamA).Obj(), builder.Agent("said").In(teamA).Obj(), newModel("said"), newTool("said"),
			builder.Session("said").In(teamA).Obj(), builder.Turn("said").In(teamA).Obj(), newToolResult("said", ""),
		} {
			stored(ctx, admin, object)
			accepts(func() error { return as(managerUser).Status().Patch(ctx, object, patch, client.DryRunAll) })
			refuses(func() error { return user.Status().Patch(ctx, object, patch, client.DryRunAll) }, refusal)
			refuses(func() error { return admin.Status().Patch(ctx, object, patch, client.DryRunAll) }, refusal)
		}
	})
})

var _ = Describe("The policy jobs", func() {
	const (
		refusal = "only the manager may create Jobs of tool calls."
		frozen  = "only suspend and the scheduling fields of the Job of a tool call may be changed."
		marked  = "only the manager may set labels and annotations of capstan.dev, and app.kubernetes.io/managed-by, " +
			"on the Job of a tool call."
	)
	turnOwner := metav1.OwnerReference{APIVersion: "capstan.dev/v1alpha1", Kind: "Turn", Name: "demo-1", UID: "1"}

	It("lets no other user create one", func(ctx context.Context) {
		user, _ := newUser(ctx, clusterEdit)
		accepts(creating(ctx, user, plainJob("own")))
		for what, change := range map[string]func(*batchv1.Job){
			"by a label":            func(j *batchv1.Job) { j.Labels = map[string]string{v1alpha1.LabelTurnUID: "1"} },
			"by what is made by us": func(j *batchv1.Job) { j.Labels = map[string]string{v1alpha1.LabelManagedBy: "capstan"} },
			"by a label of its pods": func(
				j *batchv1.Job,
			) {
				j.Spec.Template.Labels = map[string]string{v1alpha1.LabelTurnUID: "1"}
			},
			"by its owner": func(j *batchv1.Job) { j.OwnerReferences = []metav1.OwnerReference{turnOwner} },
		} {
			By(what)
			job := plainJob("own")
			change(job)
			refuses(creating(ctx, user, job), refusal)
			refuses(creating(ctx, admin, job), refusal)
		}
		job := plainJob("managed")
		job.Labels = map[string]string{v1alpha1.LabelManagedBy: "helm"}
		accepts(creating(ctx, user, job))
	})

	It("lets others suspend one and set its scheduling fields, and change no other field", func(ctx context.Context) {
		user, _ := newUser(ctx, clusterEdit)
		turn := stored(ctx, admin, builder.Turn("queued").In(teamA).Obj())
		job := stored(ctx, as(managerUser), callJob(turn, newTool("tool")))
		plain := stored(ctx, user, plainJob("later-ours"))

		accepts(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(false) }))
		accepts(
			updating(
				ctx,
				user,
				job,
				func(j *batchv1.Job) { j.Spec.Template.Spec.NodeSelector = map[string]string{"pool": "a"} },
			),
		)
		accepts(updating(ctx, user, job, func(j *batchv1.Job) { j.Labels["kueue.x-k8s.io/queue-name"] = "a" }))
		accepts(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Template.Annotations["example.org/flavor"] = "a" }))
		accepts(updating(ctx, as(jobController), job, func(*batchv1.Job) {}))

		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Labels[v1alpha1.LabelCall] = "1-1" }), marked)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { delete(j.Labels, v1alpha1.LabelManagedBy) }), marked)
		refuses(
			updating(ctx, user, job, func(j *batchv1.Job) { j.Annotations[v1alpha1.AnnotationFingerprint] = "x" }),
			marked,
		)
		refuses(
			updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Template.Annotations[v1alpha1.AnnotationArguments] = "{}" }),
			marked,
		)
		refuses(
			updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Template.Labels[v1alpha1.LabelNetwork] = "None" }),
			marked,
		)
		refuses(
			updating(ctx, user, plain, func(j *batchv1.Job) { j.Labels = map[string]string{v1alpha1.LabelTurnUID: "1"} }),
			marked,
		)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.OwnerReferences = nil }), frozen)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](2) }), frozen)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](2) }), frozen)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](1) }), frozen)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.TTLSecondsAfterFinished = ptr.To[int32](1) }), frozen)
		refuses(
			updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed) }),
			frozen,
		)
		refuses(updating(ctx, user, job, func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulingGates = nil }), frozen)
	})
})

var _ = Describe("The policy pods", func() {
	const (
		refusal = "only the Job controller may create pods of tool calls."
		gate    = "only the manager may remove the scheduling gate capstan.dev/start, once it has recorded the pod."
		marked  = "only the manager and the Job controller may set labels and annotations of capstan.dev and " +
			"batch.kubernetes.io"
		frozen = "images and owners of the pod of a tool call cannot be changed. Change the Tool."
	)

	It("lets only the Job controller create one", func(ctx context.Context) {
		user, _ := newUser(ctx, clusterEdit)
		job := callJob(
			&v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: teamA, Name: "demo-1", UID: "1"}},
			newTool("tool"),
		)
		job.UID = "2"
		pod := podOf(job)
		accepts(creating(ctx, as(jobController), pod))
		refuses(creating(ctx, user, pod), refusal)
		refuses(creating(ctx, as("system:serviceaccount:kube-system:replicaset-controller"), pod), refusal)
		own := podOf(plainJob("own"))
		own.OwnerReferences = nil
		accepts(creating(ctx, user, own))
	})

	It("lets only the manager remove its gate, and no user change its containers", func(ctx context.Context) {
		user, _ := newUser(ctx, clusterEdit)
		turn := stored(ctx, admin, builder.Turn("gated").In(teamA).Obj())
		job := stored(ctx, as(managerUser), callJob(turn, newTool("tool")))
		pod := stored(ctx, as(jobController), podOf(job))
		open := func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }
		release := func(c client.Client) func() error {
			return func() error {
				patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"schedulingGates":null}}`))
				return c.Patch(ctx, pod.DeepCopy(), patch, client.DryRunAll)
			}
		}

		accepts(release(as(managerUser)))
		refuses(release(user), gate)
		refuses(release(as(jobController)), gate)
		refuses(updating(ctx, admin, pod, open), gate)

		accepts(updating(ctx, user, pod, func(p *corev1.Pod) { p.Labels["team"] = "a" }))
		accepts(updating(ctx, user, pod, func(p *corev1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists})
		}))
		for _, label := range []string{
			v1alpha1.LabelAttempt, batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name",
		} {
			By(label)
			refuses(updating(ctx, user, pod, func(p *corev1.Pod) { p.Labels[label] = "2" }), marked)
			refuses(updating(ctx, user, pod, func(p *corev1.Pod) { delete(p.Labels, label) }), marked)
		}
		refuses(updating(ctx, user, pod, func(p *corev1.Pod) { delete(p.Annotations, v1alpha1.AnnotationArguments) }), marked)
		refuses(
			updating(ctx, user, pod, func(p *corev1.Pod) { p.Annotations[v1alpha1.AnnotationReleasedAt] = "now" }),
			marked,
		)
		refuses(updating(ctx, user, pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "example.org/other:1" }), frozen)
		refuses(
			updating(ctx, user, pod, func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "example.org/other:1" }),
			frozen,
		)
		refuses(updating(ctx, user, pod, func(p *corev1.Pod) { p.OwnerReferences = nil }), frozen)
		accepts(func() error { return user.Delete(ctx, pod.DeepCopy(), client.DryRunAll) })
	})
})
