package turns_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/conditions"
)

// condition returns a function that reads a condition of an object; the zero value for none.
func condition(
	ctx context.Context,
	object client.Object,
	namespace, name, kind string,
) func() (metav1.Condition, error) {
	return func() (metav1.Condition, error) {
		err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
		if found := meta.FindStatusCondition(status.Conditions(object), kind); found != nil && err == nil {
			return *found, nil
		}
		return metav1.Condition{}, err
	}
}

// whole has the objects that a Turn needs, by kind: a Session, its Harness with a parent and a Tool, its Agent, a Model
// and the Secret with its key.
func whole(namespace string, s *site) map[string]client.Object {
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }
	session, tool := builder.Session("demo").In(namespace).Obj(), builder.ClientTool("tool").Obj()
	session.Spec.AgentRef, session.Spec.ModelRef = &v1alpha1.LocalReference{
		Name: "agent",
	}, &v1alpha1.LocalReference{
		Name: "model",
	}
	tool.Namespace = namespace
	harness := &v1alpha1.Harness{
		ObjectMeta: named("base"),
		Spec:       v1alpha1.HarnessSpec{ParentRef: &v1alpha1.LocalReference{Name: "parent"}},
	}
	harness.Spec.Tools = []v1alpha1.LocalReference{{Name: "tool"}}
	return map[string]client.Object{
		"Session": session,
		"Harness": harness,
		"parent":  &v1alpha1.Harness{ObjectMeta: named("parent")},
		"Agent":   &v1alpha1.Agent{ObjectMeta: named("agent")},
		"Tool":    tool,
		"Model":   realModel(namespace, "model", v1alpha1.ModelProviderAnthropic, s),
		"Secret":  keySecret(namespace),
	}
}

// A condition is never older than the facts that it states: it names a missing object, and the action that the user has
// to take, until the object exists, and no longer.
var _ = Describe("The conditions of a Turn that lacks", func() {
	DescribeTable(
		"a",
		func(ctx context.Context, missing, turnReason, sessionReason, modelReason, message string) {
			s := newSite(anthropicText("Hi."))
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conditions-"}}
			create(ctx, namespace)
			objects := whole(namespace.Name, s)
			for kind, object := range objects {
				switch {
				case kind == "Secret" && missing == "key":
					other := keySecret(namespace.Name)
					other.StringData = map[string]string{"other": apiKey}
					create(ctx, other)
				case kind != missing:
					create(ctx, object)
				}
			}
			create(ctx, builder.Turn("demo-1").In(namespace.Name).Obj())

			turn := condition(ctx, &v1alpha1.Turn{}, namespace.Name, "demo-1", v1alpha1.ConditionSucceeded)
			session := condition(ctx, &v1alpha1.Session{}, namespace.Name, "demo", v1alpha1.ConditionReady)
			model := condition(ctx, &v1alpha1.Model{}, namespace.Name, "model", v1alpha1.ConditionReady)
			Eventually(
				turn,
			).Should(
				And(
					HaveField("Status", metav1.ConditionUnknown), HaveField("Reason", turnReason),
					HaveField("Message", ContainSubstring(message)),
				),
			)
			if missing != "Session" {
				Eventually(
					session,
				).Should(
					And(
						HaveField("Status", metav1.ConditionFalse), HaveField("Reason", sessionReason),
						HaveField("Message", ContainSubstring(message)),
					),
				)
			}
			if missing != "Model" {
				Eventually(model).Should(HaveField("Reason", modelReason))
			}
			Eventually(func(g Gomega) {
				if missing == "Session" {
					return
				}
				now, err := session()
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(turn()).
					To(HaveField("Message", HaveSuffix(now.Message)), "the Turn states a problem that its Session no longer states")
			}).Should(Succeed())
			conditions.Print(ctx, kit.Client, "without the "+missing, namespace.Name)
			Expect(s.requests()).To(BeEmpty())

			if missing == "key" {
				change(ctx, keySecret(namespace.Name), fmt.Sprintf(`{"stringData":{"api-key":%q}}`, apiKey))
			} else {
				create(ctx, objects[missing])
			}
			Eventually(kit.Turn(ctx, namespace.Name, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(
				session(),
			).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", Not(ContainSubstring(message)))))
			Expect(
				model(),
			).To(And(HaveField("Status", metav1.ConditionTrue), HaveField("Message", Not(ContainSubstring(message)))))
			Expect(turn()).To(HaveField("Message", "The agent responded."))
			conditions.Print(ctx, kit.Client, "with the "+missing, namespace.Name)
		},
		Entry(
			nil,
			"Session",
			v1alpha1.ReasonSessionNotFound,
			"",
			v1alpha1.ReasonReady,
			`Session "demo" does not exist. Create it`,
		),
		Entry(
			nil,
			"Harness",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonHarnessNotFound,
			v1alpha1.ReasonReady,
			`Harness "base" does not exist. Create it`,
		),
		Entry(
			nil,
			"parent",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonHarnessNotFound,
			v1alpha1.ReasonReady,
			`"parent"`,
		),
		Entry(
			nil,
			"Agent",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonAgentNotFound,
			v1alpha1.ReasonReady,
			`Agent "agent" does not exist. Create it`,
		),
		Entry(
			nil,
			"Model",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonModelNotFound,
			"",
			`Model "model" does not exist. Create it`,
		),
		Entry(
			nil,
			"Tool",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonToolNotFound,
			v1alpha1.ReasonReady,
			`Tool "tool" does not exist. Create it`,
		),
		Entry(
			nil,
			"Secret",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonModelNotReady,
			v1alpha1.ReasonSecretMissing,
			"(SecretMissing). "+`Secret "provider" does not exist. Create it: kubectl`,
		),
		Entry(
			nil,
			"key",
			v1alpha1.ReasonSessionNotReady,
			v1alpha1.ReasonModelNotReady,
			v1alpha1.ReasonSecretKeyMissing,
			`Secret "provider" has no key "api-key". Add it: kubectl`,
		),
	)

	It("a fallback of its Model, which has no key, is answered by it once it exists", func(ctx context.Context) {
		s := newSite(anthropicText("Hi."))
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conditions-"}}
		create(ctx, namespace)
		objects := whole(namespace.Name, s)
		for kind, object := range objects {
			if model, ok := object.(*v1alpha1.Model); ok {
				model.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "fallback"}}
			}
			if kind != "Secret" {
				create(ctx, object)
			}
		}
		create(ctx, builder.Turn("demo-1").In(namespace.Name).Obj())
		session := condition(ctx, &v1alpha1.Session{}, namespace.Name, "demo", v1alpha1.ConditionReady)
		turn := condition(ctx, &v1alpha1.Turn{}, namespace.Name, "demo-1", v1alpha1.ConditionSucceeded)
		const missing = `Model "model" is not ready (SecretMissing).`
		Eventually(
			session,
		).Should(And(HaveField("Reason", v1alpha1.ReasonModelNotReady), HaveField("Message", ContainSubstring(missing))))
		Eventually(
			turn,
		).Should(And(HaveField("Reason", v1alpha1.ReasonSessionNotReady), HaveField("Message", ContainSubstring(missing))))
		conditions.Print(ctx, kit.Client, "without the fallback Model", namespace.Name)

		fallback := builder.Model("fallback").In(namespace.Name).Obj()
		fallback.Spec = v1alpha1.ModelSpec{
			Provider:   v1alpha1.ModelProviderSimulated,
			Simulation: new(builder.Script("Hi.")),
		}
		create(ctx, fallback)
		Eventually(kit.Turn(ctx, namespace.Name, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(session()).To(And(
			HaveField("Status", metav1.ConditionTrue),
			HaveField(
				"Message",
				ContainSubstring(`Fallback "fallback" is called in place of Model "model", which is not ready (SecretMissing).`),
			),
		))
		Expect(s.requests()).To(BeEmpty())
		conditions.Print(ctx, kit.Client, "with the fallback Model", namespace.Name)
	})

	It("a ResourceQuota with space for JournalEntries reports so, and continues when there is space", func(
		ctx context.Context,
	) {
		namespace := newNamespace(ctx, builder.Script("Hi."))
		none := corev1.ResourceList{
			"count/journalentries.capstan.dev": resource.MustParse("0"),
			"count/configmaps":                 resource.MustParse("0"),
		}
		quota := &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "few"},
			Spec:       corev1.ResourceQuotaSpec{Hard: none},
		}
		create(ctx, quota)
		// No quota controller runs here.
		quota.Status = corev1.ResourceQuotaStatus{Hard: none, Used: none}
		Expect(kit.Client.Status().Update(ctx, quota)).To(Succeed())
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "probe"}}
		Eventually(
			func() error { return kit.Client.Create(ctx, probe, client.DryRunAll) },
		).Should(MatchError(apierrors.IsForbidden, "Forbidden"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		turn := condition(ctx, &v1alpha1.Turn{}, namespace, "demo-1", v1alpha1.ConditionSucceeded)
		Eventually(
			turn,
		).Should(And(
			HaveField("Status", metav1.ConditionUnknown),
			HaveField("Reason", v1alpha1.ReasonJournalRefused),
			HaveField(
				"Message",
				And(ContainSubstring("exceeded quota: few"), ContainSubstring("Remove the cause, such as a ResourceQuota")),
			),
		))
		conditions.Print(ctx, kit.Client, "without room in the namespace's quota", namespace)
		Expect(kit.Client.Delete(ctx, quota)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).WithTimeout(time.Minute).Should(capstantest.HaveSucceeded())
		Expect(turn()).To(HaveField("Message", "The agent responded."))
		conditions.Print(ctx, kit.Client, "with room in the namespace's quota", namespace)
	})

	// Rules: CFG-07.
	It("a Model that its controls name reports so, and uses the Model of its Session", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hi."))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		turn := builder.Turn("demo-1").In(namespace).Obj()
		turn.Spec.Controls = &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "gone"}}
		create(ctx, turn)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(condition(ctx, turn, namespace, "demo-1", v1alpha1.ConditionSucceeded)()).To(
			HaveField(
				"Message",
				`The agent responded. Model "gone" of controls.modelRef does not exist and was ignored.`,
			))
		Expect(turn.Status.Model).To(Equal("simulated"))
	})

	It("one default Model reads in its Session which of two is used", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hi."))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		ready := condition(ctx, &v1alpha1.Session{}, namespace, "demo", v1alpha1.ConditionReady)
		Eventually(ready).Should(HaveField("Message", "All references of the Session are resolved."))
		second := builder.Model("a-second").In(namespace).Obj()
		second.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
		second.Spec = v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderSimulated, Simulation: &v1alpha1.Simulation{}}
		create(ctx, second)
		Eventually(ready).Should(And(HaveField("Status", metav1.ConditionTrue),
			HaveField("Message", ContainSubstring(`Model "a-second" is the default, as the newest of 2`))))
		change(ctx, second, `{"metadata":{"annotations":{"capstan.dev/is-default-model":null}}}`)
		Eventually(ready).Should(HaveField("Message", "All references of the Session are resolved."))
	})
})
