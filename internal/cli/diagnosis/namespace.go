package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Namespace is what was read of a namespace.
type Namespace struct {
	Name string
	// Missing reports whether the namespace does not exist.
	Missing bool
	// May reports what the user may do, by the words for it.
	May map[string]bool
	// Models of the namespace. ModelsHidden reports whether they may not be read; so do the others.
	Models       []v1alpha1.Model
	ModelsHidden bool
	// Objects are the other objects of the configuration, with their conditions.
	Objects []Object
	// Secrets are those that Models name, by name; nil for one that does not exist. Their data is not read.
	Secrets       map[string]*metav1.PartialObjectMetadata
	SecretsHidden bool
	Quotas        []corev1.ResourceQuota
}

// Object is an object with the condition Ready.
type Object struct {
	Kind, Name string
	Conditions []metav1.Condition
}

// What users do, in the words of a finding, and the roles that permit it.
var rights = []struct{ Words, Role string }{
	{MayRead, "capstan-view"}, {MayTalk, "capstan-edit"}, {MayApprove, "capstan-approve"}, {MayBuild, "capstan-tools"},
}

// What users do.
const (
	MayRead    = "read conversations"
	MayTalk    = "send messages"
	MayApprove = "approve calls"
	MayBuild   = "change Agents and Tools"
)

// Check returns the findings of a namespace.
func (n Namespace) Check() Section {
	s := Section{Name: "Namespace " + n.Name}
	if n.Missing {
		s.Findings = []Finding{{
			Level: Wrong, Subject: "namespace", Message: "it does not exist",
			Mend: []string{"kubectl create namespace " + n.Name},
		}}
		return s
	}
	s.Findings = slices.Concat(n.roles(), n.models(), n.notReady(), n.secrets(), n.quotas())
	return s
}

func (n Namespace) roles() []Finding {
	var may, not []string
	for _, right := range rights {
		if n.May[right.Words] {
			may = append(may, right.Words)
		} else {
			not = append(not, right.Words+" ("+right.Role+")")
		}
	}
	f := Finding{Level: Fine, Subject: "your permissions"}
	switch {
	case len(may) == 0:
		f.Level, f.Message = Wrong, "you may do nothing here"
		f.Mend = []string{"kubectl create rolebinding NAME -n " + n.Name + " --clusterrole=capstan-edit --user=USER"}
	case len(not) == 0:
		f.Message = "you may " + strings.Join(may, ", ")
	default:
		f.Message = "you may " + strings.Join(may, ", ") + ", and not " + strings.Join(not, ", ")
	}
	return []Finding{f}
}

func (n Namespace) models() []Finding {
	if n.ModelsHidden {
		return []Finding{hidden("Models", "Models")}
	}
	if len(n.Models) == 0 {
		return []Finding{{
			Level: Wrong, Subject: "Models", Message: "the namespace has none. docs/models.md has examples for each provider.",
		}}
	}
	var defaults []string
	var findings []Finding
	for i := range n.Models {
		m := &n.Models[i]
		if m.Annotations[v1alpha1.AnnotationDefaultModel] == "true" {
			defaults = append(defaults, m.Name)
		}
		findings = append(findings, ready(n.Name, Object{"Model", m.Name, m.Status.Conditions})...)
	}
	switch len(defaults) {
	case 1:
		findings = append(findings, Finding{
			Level: Fine, Subject: "Models", Message: fmt.Sprintf("%d, the default is %s", len(n.Models), defaults[0]),
		})
	case 0:
		findings = append(findings, Finding{
			Level: Notable, Subject: "Models", Message: "none is the default: Sessions must name one",
			Mend: []string{fmt.Sprintf(`kubectl annotate model %s -n %s %s=true`, n.Models[0].Name, n.Name,
				v1alpha1.AnnotationDefaultModel)},
		})
	default:
		findings = append(findings, Finding{
			Level: Notable, Subject: "Models", Message: "several are the default, and the newest counts: " +
				strings.Join(defaults, ", "),
			Mend: []string{fmt.Sprintf(`kubectl annotate model %s -n %s %s-`, defaults[0], n.Name,
				v1alpha1.AnnotationDefaultModel)},
		})
	}
	return findings
}

func (n Namespace) notReady() []Finding {
	var findings []Finding
	for _, o := range n.Objects {
		findings = append(findings, ready(n.Name, o)...)
		findings = append(findings, spent(n.Name, o)...)
	}
	return findings
}

// spent returns a finding about a Budget that makes Turns wait, or ends them.
func spent(namespace string, o Object) []Finding {
	for _, kind := range []string{v1alpha1.ConditionExhausted, v1alpha1.ConditionPaused} {
		if c := meta.FindStatusCondition(o.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return []Finding{{
				Level: Notable, Subject: o.Kind + " " + o.Name, Message: c.Reason + ": " + c.Message,
				Mend: []string{fmt.Sprintf("kubectl edit budget %s -n %s", o.Name, namespace)},
			}}
		}
	}
	return nil
}

// ready returns a finding about an object that is not ready; none about one that is.
func ready(namespace string, o Object) []Finding {
	c := meta.FindStatusCondition(o.Conditions, v1alpha1.ConditionReady)
	describe := []string{fmt.Sprintf("kubectl describe %s %s -n %s", strings.ToLower(o.Kind), o.Name, namespace)}
	subject := o.Kind + " " + o.Name
	switch {
	case c == nil:
		return []Finding{{
			Level: Wrong, Subject: subject, Message: "it has no condition: no manager has seen it. Is the manager ready, and " +
				"does it watch this namespace?", Mend: describe,
		}}
	case c.Status == metav1.ConditionTrue:
		return nil
	default:
		return []Finding{{Level: Wrong, Subject: subject, Message: c.Reason + ": " + c.Message, Mend: describe}}
	}
}

// secrets returns findings about the Secrets that Models name.
func (n Namespace) secrets() []Finding {
	if n.SecretsHidden {
		return []Finding{
			{Level: Unknown, Subject: "Secrets", Message: "you may not read them: whether they are bound is unknown"},
		}
	}
	var findings []Finding
	for i := range n.Models {
		ref := n.Models[i].Spec.SecretKeyRef
		if ref == nil {
			continue
		}
		secret := n.Secrets[ref.Name]
		switch {
		case secret == nil:
			findings = append(findings, Finding{
				Level:   Wrong,
				Subject: "Secret " + ref.Name,
				Message: "Model " + n.Models[i].Name + " names it, and it does not exist",
				Mend: []string{fmt.Sprintf("kubectl create secret generic %s -n %s --from-file=%s=/dev/stdin", ref.Name, n.Name,
					ref.Key)},
			})
		case secret.Annotations[v1alpha1.AnnotationAllowedHosts] == "":
			findings = append(findings, Finding{
				Level:   Notable,
				Subject: "Secret " + ref.Name,
				Message: "it is not bound to hosts: any Tool of the namespace may send it",
				Mend: []string{fmt.Sprintf("kubectl annotate secret %s -n %s %s=HOST", ref.Name, n.Name,
					v1alpha1.AnnotationAllowedHosts)},
			})
		}
	}
	return findings
}

// quotas returns findings about quotas that are used up.
func (n Namespace) quotas() []Finding {
	var findings []Finding
	for _, q := range n.Quotas {
		for _, name := range sortedNames(q.Status.Hard) {
			hard, used := q.Status.Hard[name], q.Status.Used[name]
			if used.Cmp(hard) >= 0 && !hard.IsZero() {
				findings = append(findings, Finding{
					Level: Wrong, Subject: "quota " + q.Name, Message: fmt.Sprintf("%s is used up: %s of %s", name, used.String(),
						hard.String()),
					Mend: []string{fmt.Sprintf("kubectl describe quota %s -n %s", q.Name, n.Name)},
				})
			}
		}
	}
	return findings
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	var names []corev1.ResourceName
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
