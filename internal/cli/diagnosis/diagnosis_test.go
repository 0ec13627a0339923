package diagnosis_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/cli/diagnosis"
)

// shown are the lines of sections.
func shown(sections ...diagnosis.Section) string {
	var all []string
	for _, line := range diagnosis.Lines(sections) {
		all = append(all, line.String())
	}
	return strings.Join(all, "\n")
}

// expect fails unless the sections show a text, and are healthy or not.
func expect(t *testing.T, section diagnosis.Section, healthy bool, wants ...string) {
	t.Helper()
	got := shown(section)
	if diagnosis.Healthy([]diagnosis.Section{section}) != healthy {
		t.Errorf("healthy is not %t:\n%s", healthy, got)
	}
	for _, want := range wants {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
}

// healthyInstall is one with nothing wrong.
func healthyInstall(t *testing.T) diagnosis.Install {
	t.Helper()
	definitions, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	i := diagnosis.Install{
		Namespace: "capstan-system", Program: "v1.2.3", Kubernetes: "v1.37.1", Wanted: definitions,
		Managers: []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "capstan-system", Name: "capstan-manager"},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "manager", Image: "example.org/manager:v1"}},
			}}},
			Status: appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1},
		}},
	}
	for _, d := range definitions {
		i.Served = append(i.Served, d.Spec.Names.Plural)
	}
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		i.Policies = append(i.Policies, diagnosis.InstalledPolicy{Want: p, Policy: p.Policy, Binding: p.Binding})
	}
	return i
}

func TestInstall(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*diagnosis.Install)
		healthy bool
		want    []string
	}{
		"nothing wrong": {func(*diagnosis.Install) {}, true, []string{
			"v1.2.3", "v1.37.1", "capstan-manager: 1 of 1 ready, image example.org/manager:v1", "policies are in force",
		}},
		"not installed": {func(i *diagnosis.Install) { i.Served = nil }, false, []string{
			"not installed", "kubectl apply --server-side",
		}},
		"an old install": {func(i *diagnosis.Install) { i.Served = i.Served[1:] }, false, []string{
			"does not serve agents",
		}},
		"an old cluster":     {func(i *diagnosis.Install) { i.Kubernetes = "v1.29.4" }, false, []string{"1.30 or later"}},
		"a vendor's version": {func(i *diagnosis.Install) { i.Kubernetes = "v1.31.2-gke.100" }, true, nil},
		"no manager":         {func(i *diagnosis.Install) { i.Managers = nil }, false, []string{"has no manager"}},
		"a manager that is not ready": {func(i *diagnosis.Install) {
			i.Managers[0].Status = appsv1.DeploymentStatus{Replicas: 1, Conditions: []appsv1.DeploymentCondition{{
				Type: appsv1.DeploymentAvailable, Status: corev1.ConditionFalse, Message: "no minimum availability",
			}}}
		}, false, []string{
			"0 of 1 ready", "no minimum availability", "kubectl logs -n capstan-system deployment/capstan-manager",
		}},
		"no binding": {func(i *diagnosis.Install) { i.Policies[0].Binding = nil }, false, []string{
			"ValidatingAdmissionPolicyBinding", "does not exist", "reads no Secret",
		}},
		"no binding of a Helm release": {func(i *diagnosis.Install) {
			i.Policies[0].Binding, i.Managers[0].ObjectMeta = nil, byHelm(i.Managers[0].ObjectMeta)
		}, false, []string{"helm upgrade tug CHART --namespace ships"}},
		"no manager of a Helm release": {func(i *diagnosis.Install) {
			i.Managers = nil
			crew := i.Wanted[0].DeepCopy()
			crew.ObjectMeta = byHelm(crew.ObjectMeta)
			i.Definitions = map[string]*apiextensionsv1.CustomResourceDefinition{crew.Name: crew}
		}, false, []string{"helm upgrade tug CHART --namespace ships"}},
		"what may not be read": {func(i *diagnosis.Install) {
			i.Managers, i.ManagersHidden, i.Policies, i.PoliciesHidden = nil, true, nil, true
		}, true, []string{"unknown", "you may not read ValidatingAdmissionPolicies"}},
		"kinds of another version": {func(i *diagnosis.Install) {
			other := i.Wanted[0].DeepCopy()
			other.Spec.Versions[0].Schema.OpenAPIV3Schema.Description = "older"
			i.Definitions = map[string]*apiextensionsv1.CustomResourceDefinition{other.Name: other}
		}, true, []string{"Of another version than this program are: agents"}},
	} {
		t.Run(name, func(t *testing.T) {
			i := healthyInstall(t)
			test.change(&i)
			expect(t, i.Check(), test.healthy, test.want...)
		})
	}
}

// byHelm adds what Helm adds to the objects of the release tug.
func byHelm(meta metav1.ObjectMeta) metav1.ObjectMeta {
	meta.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
	meta.Annotations = map[string]string{
		"meta.helm.sh/release-name": "tug", "meta.helm.sh/release-namespace": "ships",
	}
	return meta
}

func isReady(status metav1.ConditionStatus, reason, message string) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: message}}
}

func TestNamespace(t *testing.T) {
	everything := map[string]bool{
		diagnosis.MayRead: true, diagnosis.MayTalk: true, diagnosis.MayApprove: true, diagnosis.MayBuild: true,
	}
	model := v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{
		Name: "big", Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
	}}
	model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "keys", Key: "api"}
	model.Status.Conditions = isReady(metav1.ConditionTrue, "Ready", "")
	bound := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		v1alpha1.AnnotationAllowedHosts: "api.example.org",
	}}}
	for name, test := range map[string]struct {
		change  func(*diagnosis.Namespace)
		healthy bool
		want    []string
	}{
		"nothing wrong": {func(*diagnosis.Namespace) {}, true, []string{
			"you may read conversations, send messages, approve calls, change Agents and Tools", "1, the default is big",
		}},
		"missing": {func(n *diagnosis.Namespace) { n.Missing = true }, false, []string{
			"kubectl create namespace shop",
		}},
		"no permission": {func(n *diagnosis.Namespace) { n.May = nil }, false, []string{"you may do nothing here"}},
		"some permissions": {func(n *diagnosis.Namespace) {
			n.May = map[string]bool{diagnosis.MayRead: true}
		}, true, []string{
			"and not send messages (capstan-edit), approve calls (capstan-approve)",
		}},
		"no Model": {
			func(n *diagnosis.Namespace) { n.Models = nil }, false, []string{"the namespace has none", "docs/models.md"},
		},
		"no default": {func(n *diagnosis.Namespace) { n.Models[0].Annotations = nil }, true, []string{
			"kubectl annotate model big -n shop capstan.dev/is-default-model=true",
		}},
		"two defaults": {func(n *diagnosis.Namespace) { n.Models = append(n.Models, n.Models[0]) }, true, []string{
			"several are the default",
		}},
		"a Model that is not ready": {func(n *diagnosis.Namespace) {
			n.Models[0].Status.Conditions = isReady(metav1.ConditionFalse, "SecretNotFound", "Create it.")
		}, false, []string{"Model big", "SecretNotFound: Create it.", "kubectl describe model big -n shop"}},
		"an object without conditions": {func(n *diagnosis.Namespace) {
			n.Objects = []diagnosis.Object{{Kind: "Tool", Name: "w"}}
		}, false, []string{"no manager has seen it"}},
		"no Secret": {func(n *diagnosis.Namespace) { n.Secrets = nil }, false, []string{
			"Model big names it, and it does not exist", "kubectl create secret generic keys -n shop --from-file=api=/dev/stdin",
		}},
		"an unbound Secret": {func(n *diagnosis.Namespace) {
			n.Secrets["keys"] = &metav1.PartialObjectMetadata{}
		}, true, []string{
			"kubectl annotate secret keys -n shop capstan.dev/allowed-hosts=HOST",
		}},
		"Secrets that may not be read": {func(n *diagnosis.Namespace) { n.SecretsHidden = true }, true, []string{"unknown"}},
		"a quota": {func(n *diagnosis.Namespace) {
			q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
			q.Status.Hard = corev1.ResourceList{"count/turns.capstan.dev": resource.MustParse("5")}
			q.Status.Used = corev1.ResourceList{"count/turns.capstan.dev": resource.MustParse("5")}
			n.Quotas = []corev1.ResourceQuota{q}
		}, false, []string{"count/turns.capstan.dev is used up: 5 of 5"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := diagnosis.Namespace{
				Name: "shop", May: everything, Models: []v1alpha1.Model{*model.DeepCopy()},
				Secrets: map[string]*metav1.PartialObjectMetadata{"keys": bound},
			}
			test.change(&n)
			expect(t, n.Check(), test.healthy, test.want...)
		})
	}
}

func TestSession(t *testing.T) {
	turn := func(change func(*v1alpha1.Turn)) []v1alpha1.Turn {
		one := v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "demo-1"}}
		one.Status.Phase = v1alpha1.TurnPhaseQueued
		change(&one)
		return []v1alpha1.Turn{one}
	}
	for name, test := range map[string]struct {
		change  func(*diagnosis.Session)
		healthy bool
		want    []string
	}{
		"ready": {func(*diagnosis.Session) {}, true, []string{"ready, phase Idle"}},
		"not ready": {func(s *diagnosis.Session) {
			s.Session.Status.Conditions = isReady(metav1.ConditionFalse, "HarnessNotFound", "Create Harness x.")
		}, false, []string{"HarnessNotFound: Create Harness x."}},
		"a full journal": {func(s *diagnosis.Session) {
			s.Session.Spec.JournalLimit = resource.NewQuantity(1000, resource.BinarySI)
			s.Session.Status.Journal.Bytes = 950
		}, true, []string{"950 of 1000 bytes", `"journalLimit":"2000"`}},
		"a Turn that is suspended": {func(s *diagnosis.Session) {
			s.Turns = turn(func(t *v1alpha1.Turn) {
				t.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionSucceeded, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonSuspended,
				}}
			})
		}, true, []string{`kubectl patch turn demo-1 -n shop --type=merge -p '{"spec":{"suspend":false}}'`}},
		"a Turn that is stalled": {func(s *diagnosis.Session) {
			s.Turns = turn(func(t *v1alpha1.Turn) {
				t.Status.Conditions = []metav1.Condition{{
					Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: "SecretMissing", Message: "Create it.",
				}}
			})
		}, false, []string{"SecretMissing: Create it."}},
		"a call that waits": {func(s *diagnosis.Session) {
			s.Turns = turn(func(t *v1alpha1.Turn) {
				t.Status.Phase = v1alpha1.TurnPhaseWaitingForToolResults
				t.Status.ToolCalls = []v1alpha1.ToolCall{{
					ID: "1-0", Name: "pay", State: v1alpha1.ToolCallStateWaiting, Reason: v1alpha1.ReasonApproval,
				}}
			})
		}, true, []string{"call 1-0 pay waits for approval", "kubectl capstan approve demo-1 1-0"}},
		"a Turn that runs": {func(s *diagnosis.Session) {
			s.Turns = turn(func(t *v1alpha1.Turn) { t.Status.Phase = v1alpha1.TurnPhaseReason })
		}, true, []string{"phase Reason"}},
	} {
		t.Run(name, func(t *testing.T) {
			session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "demo"}}
			session.Status.Phase = v1alpha1.SessionPhaseIdle
			session.Status.Conditions = isReady(metav1.ConditionTrue, "Ready", "")
			s := diagnosis.Session{Session: session, Command: "kubectl capstan"}
			test.change(&s)
			expect(t, s.Check(), test.healthy, test.want...)
		})
	}
}
