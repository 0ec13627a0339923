package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/cli/pending"
)

// oldestKubernetes is the oldest version that the policies work on.
const oldestKubernetes = "1.30.0"

// Install is what was read of an install. An error of a read that was forbidden is kept, any other ends the command.
type Install struct {
	// Namespace of the manager.
	Namespace string
	// Program and Kubernetes are the versions of this program and of the API server.
	Program, Kubernetes string
	// Served are the resources of the API group that the API server serves; nil for none.
	Served []string
	// Wanted are the definitions of the kinds that this program knows.
	Wanted []*apiextensionsv1.CustomResourceDefinition
	// Definitions are those of the cluster, by name; nil if they may not be read.
	Definitions map[string]*apiextensionsv1.CustomResourceDefinition
	// Managers are the Deployments of managers.
	Managers       []appsv1.Deployment
	ManagersHidden bool
	// Policies are those that this program knows, with the objects of the cluster; nil for one that does not exist.
	Policies       []InstalledPolicy
	PoliciesHidden bool
}

// InstalledPolicy is a policy with the objects of the cluster.
type InstalledPolicy struct {
	Want    policy.Policy
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Check returns the findings of an install.
func (i Install) Check() Section {
	return Section{Name: "Install", Findings: slices.Concat(i.versions(), i.kinds(), i.managers(), i.policies())}
}

func (i Install) versions() []Finding {
	findings := []Finding{{Level: Fine, Subject: "kubectl-capstan", Message: i.Program}}
	found := Finding{Level: Fine, Subject: "Kubernetes", Message: i.Kubernetes}
	if v, err := version.ParseGeneric(i.Kubernetes); err == nil && !v.AtLeast(version.MustParseGeneric(oldestKubernetes)) {
		found.Level = Wrong
		found.Message += ": the policies need 1.30 or later. Upgrade the cluster; see docs/support.md."
	}
	return append(findings, found)
}

// The marks that Helm leaves at the objects of a release.
const (
	managedByHelm           = "Helm"
	annotationHelmRelease   = "meta.helm.sh/release-name"
	annotationHelmNamespace = "meta.helm.sh/release-namespace"
)

// installCommand installs what does not exist, in the way that the rest of the install came.
func (i Install) installCommand() string {
	for _, o := range i.objects() {
		release := o.GetAnnotations()[annotationHelmRelease]
		if o.GetLabels()[v1alpha1.LabelManagedBy] == managedByHelm && release != "" {
			namespace := cmp.Or(o.GetAnnotations()[annotationHelmNamespace], i.Namespace)
			return "helm upgrade " + pending.Quoted(release) + " CHART --namespace " + pending.Quoted(namespace)
		}
	}
	return "kubectl apply --server-side -f dist/install.yaml"
}

// objects are those of the install that were read.
func (i Install) objects() []metav1.Object {
	var all []metav1.Object
	for n := range i.Managers {
		all = append(all, &i.Managers[n])
	}
	for _, p := range i.Policies {
		if p.Policy != nil {
			all = append(all, p.Policy)
		}
		if p.Binding != nil {
			all = append(all, p.Binding)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.Definitions)) {
		all = append(all, i.Definitions[name])
	}
	return all
}

func (i Install) kinds() []Finding {
	var missing []string
	for _, d := range i.Wanted {
		if !slices.Contains(i.Served, d.Spec.Names.Plural) {
			missing = append(missing, d.Spec.Names.Plural)
		}
	}
	if len(missing) == 0 {
		served := fmt.Sprintf("%d kinds of capstan.dev/v1alpha1 are served", len(i.Wanted))
		if others := i.otherVersions(); len(others) > 0 {
			return []Finding{{
				Level: Notable, Subject: "kinds", Message: served + ". Of another version than this program are: " +
					strings.Join(others, ", ") + ". Use the program of the version of the install.",
			}}
		}
		return []Finding{{Level: Fine, Subject: "kinds", Message: served}}
	}
	what := "the API server does not serve " + strings.Join(missing, ", ")
	if len(missing) == len(i.Wanted) {
		what = "Capstan is not installed in this cluster"
	}
	return []Finding{{Level: Wrong, Subject: "kinds", Message: what, Mend: []string{i.installCommand()}}}
}

// otherVersions are the kinds whose schema in the cluster is not the one that this program knows.
func (i Install) otherVersions() []string {
	var others []string
	for _, want := range i.Wanted {
		have := i.Definitions[want.Name]
		if have != nil && !apiequality.Semantic.DeepEqual(schemas(have), schemas(want)) {
			others = append(others, want.Spec.Names.Plural)
		}
	}
	return others
}

func schemas(d *apiextensionsv1.CustomResourceDefinition) []*apiextensionsv1.CustomResourceValidation {
	var all []*apiextensionsv1.CustomResourceValidation
	for i := range d.Spec.Versions {
		all = append(all, d.Spec.Versions[i].Schema)
	}
	return all
}

func (i Install) managers() []Finding {
	const subject = "manager"
	if i.ManagersHidden {
		return []Finding{hidden(subject, "Deployments in namespace "+i.Namespace)}
	}
	if len(i.Managers) == 0 {
		return []Finding{{
			Level: Wrong, Subject: subject, Message: "namespace " + i.Namespace + " has no manager. " +
				"If it is in another one, name that with --manager-namespace.", Mend: []string{i.installCommand()},
		}}
	}
	var findings []Finding
	for _, d := range i.Managers {
		image := ""
		for _, c := range d.Spec.Template.Spec.Containers {
			if c.Name == subject {
				image = c.Image
			}
		}
		f := Finding{
			Level: Fine, Subject: subject,
			Message: fmt.Sprintf("%s: %d of %d ready, image %s", d.Name, d.Status.ReadyReplicas, d.Status.Replicas, image),
		}
		if d.Status.ReadyReplicas == 0 {
			f.Level = Wrong
			for _, c := range d.Status.Conditions {
				if c.Status != "True" && c.Message != "" {
					f.Message += "\n" + c.Message
				}
			}
			f.Mend = []string{
				"kubectl get pods -n " + d.Namespace + " -l app.kubernetes.io/name=capstan",
				"kubectl logs -n " + d.Namespace + " deployment/" + d.Name,
			}
		}
		findings = append(findings, f)
	}
	return findings
}

func (i Install) policies() []Finding {
	const subject = "policies"
	if i.PoliciesHidden {
		return []Finding{hidden(subject, "ValidatingAdmissionPolicies")}
	}
	var findings []Finding
	for _, p := range i.Policies {
		if short := policy.Shortfall(p.Want, p.Policy, p.Binding); short != "" {
			findings = append(findings, Finding{
				Level: Wrong, Subject: "policy", Message: p.Want.Policy.Name + ": " + short +
					". The manager reads no Secret until it is in force.",
				Mend: []string{i.installCommand()},
			})
		}
	}
	if len(findings) == 0 {
		findings = []Finding{{
			Level: Fine, Subject: subject, Message: fmt.Sprintf("%d policies are in force, version %d", len(i.Policies),
				policy.Version),
		}}
	}
	return findings
}

func hidden(subject, what string) Finding {
	return Finding{
		Level: Unknown, Subject: subject, Message: "you may not read " + what + ". Ask an administrator to run: " +
			"kubectl capstan doctor",
	}
}
