package command

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/config/policy"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/diagnosis"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/version"
)

// readable returns whether an object could be read: false if it does not exist or, with hidden, may not be read.
func readable(err error) (found, hidden bool, failed error) {
	switch {
	case err == nil:
		return true, false, nil
	case apierrors.IsForbidden(err):
		return false, true, nil
	case apierrors.IsNotFound(err):
		return false, false, nil
	default:
		return false, false, err
	}
}

func readInstall(ctx context.Context, c *access.Cluster, namespace string) (*diagnosis.Install, error) {
	i := &diagnosis.Install{Namespace: namespace, Program: version.Get().Version}
	kinds, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	server, err := kinds.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("reading the version of the API server: %w", err)
	}
	i.Kubernetes = server.GitVersion
	served, err := kinds.ServerResourcesForGroupVersion(v1alpha1.GroupVersion.String())
	if _, _, err := readable(err); err != nil {
		return nil, fmt.Errorf("reading the kinds of the API server: %w", err)
	}
	if served != nil {
		for _, r := range served.APIResources {
			i.Served = append(i.Served, r.Name)
		}
	}
	if i.Wanted, err = crd.Definitions(); err != nil {
		return nil, err
	}
	for _, want := range i.Wanted {
		have := &apiextensionsv1.CustomResourceDefinition{}
		found, _, err := readable(c.Get(ctx, client.ObjectKeyFromObject(want), have))
		if err != nil {
			return nil, fmt.Errorf("reading the CustomResourceDefinition %s: %w", want.Name, err)
		}
		if found {
			if i.Definitions == nil {
				i.Definitions = map[string]*apiextensionsv1.CustomResourceDefinition{}
			}
			i.Definitions[want.Name] = have
		}
	}
	var managers appsv1.DeploymentList
	_, i.ManagersHidden, err = readable(c.List(ctx, &managers, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "capstan", "app.kubernetes.io/component": "manager"}))
	if err != nil {
		return nil, fmt.Errorf("reading Deployments: %w", err)
	}
	i.Managers = managers.Items
	return i, readPolicies(ctx, c, i)
}

func readPolicies(ctx context.Context, c *access.Cluster, i *diagnosis.Install) error {
	wanted, err := policy.Policies(policy.Accounts{
		Manager: "system:serviceaccount:" + i.Namespace + ":capstan-manager",
	})
	if err != nil {
		return err
	}
	for _, want := range wanted {
		installed := diagnosis.InstalledPolicy{Want: want}
		have, binding := want.Policy.DeepCopy(), want.Binding.DeepCopy()
		for object, keep := range map[client.Object]func(){
			have: func() { installed.Policy = have }, binding: func() { installed.Binding = binding },
		} {
			found, hidden, err := readable(c.Get(ctx, client.ObjectKeyFromObject(object), object))
			if err != nil {
				return fmt.Errorf("reading policy %s: %w", want.Policy.Name, err)
			}
			if hidden {
				i.PoliciesHidden = true
				return nil
			}
			if found {
				keep()
			}
		}
		i.Policies = append(i.Policies, installed)
	}
	return nil
}

func readNamespace(ctx context.Context, c *access.Cluster) (*diagnosis.Namespace, error) {
	n := &diagnosis.Namespace{
		Name: c.Namespace, May: map[string]bool{}, Secrets: map[string]*metav1.PartialObjectMetadata{},
	}
	found, hidden, err := readable(c.Get(ctx, client.ObjectKey{Name: c.Namespace}, &corev1.Namespace{}))
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", c.Namespace, err)
	}
	if n.Missing = !found && !hidden; n.Missing {
		return n, nil
	}
	for words, request := range map[string][2]string{
		diagnosis.MayRead: {"get", "journalentries"}, diagnosis.MayTalk: {"create", "turns"},
		diagnosis.MayApprove: {"approve", "toolresults"}, diagnosis.MayBuild: {"update", "agents"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: c.Namespace, Group: v1alpha1.GroupVersion.Group, Verb: request[0], Resource: request[1],
			},
		}}
		if err := c.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("asking the API server for your permissions: %w", err)
		}
		n.May[words] = review.Status.Allowed
	}
	return n, readConfiguration(ctx, c, n)
}

// readConfiguration reads the objects of a namespace, as far as the user may.
func readConfiguration(ctx context.Context, c *access.Cluster, n *diagnosis.Namespace) error {
	var err error
	if n.ModelsHidden, err = hiddenKind(pages(ctx, c, func(l *v1alpha1.ModelList) {
		n.Models = append(n.Models, l.Items...)
	})); err != nil {
		return err
	}
	add := func(kind string) func(diagnosis.Object) {
		return func(o diagnosis.Object) {
			o.Kind = kind
			n.Objects = append(n.Objects, o)
		}
	}
	for _, read := range []func() error{
		func() error {
			return pages(ctx, c, func(l *v1alpha1.HarnessList) {
				each(l.Items, func(o v1alpha1.Harness) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("Harness"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *v1alpha1.AgentList) {
				each(l.Items, func(o v1alpha1.Agent) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("Agent"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *v1alpha1.ToolList) {
				each(l.Items, func(o v1alpha1.Tool) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("Tool"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *v1alpha1.MCPServerList) {
				each(l.Items, func(o v1alpha1.MCPServer) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("MCPServer"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *v1alpha1.CapabilityList) {
				each(l.Items, func(o v1alpha1.Capability) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("Capability"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *v1alpha1.BudgetList) {
				each(l.Items, func(o v1alpha1.Budget) diagnosis.Object {
					return diagnosis.Object{Name: o.Name, Conditions: o.Status.Conditions}
				}, add("Budget"))
			})
		},
		func() error {
			return pages(ctx, c, func(l *corev1.ResourceQuotaList) { n.Quotas = append(n.Quotas, l.Items...) })
		},
	} {
		if _, err := hiddenKind(read()); err != nil {
			return err
		}
	}
	return readSecrets(ctx, c, n)
}

func each[T any](items []T, object func(T) diagnosis.Object, use func(diagnosis.Object)) {
	for _, item := range items {
		use(object(item))
	}
}

// hiddenKind reports whether the error of a list is that the user may not read it.
func hiddenKind(err error) (bool, error) {
	if apierrors.IsForbidden(err) {
		return true, nil
	}
	return false, err
}

// readSecrets reads the metadata of the Secrets that Models name: their data does not leave the API server.
func readSecrets(ctx context.Context, c *access.Cluster, n *diagnosis.Namespace) error {
	for i := range n.Models {
		ref := n.Models[i].Spec.SecretKeyRef
		if ref == nil {
			continue
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		found, hidden, err := readable(c.Get(ctx, c.Key(ref.Name), secret))
		if err != nil {
			return fmt.Errorf("reading Secret %s: %w", ref.Name, err)
		}
		n.SecretsHidden = n.SecretsHidden || hidden
		if found {
			n.Secrets[ref.Name] = secret
		}
	}
	return nil
}

// maxTurns bounds the Turns of a Session that are looked at.
const maxTurns = 20

func readSession(ctx context.Context, c *access.Cluster, argument string) (*diagnosis.Session, error) {
	of, err := find(ctx, c, argument)
	if err != nil {
		return nil, err
	}
	s := &diagnosis.Session{Session: of.session, Command: c.Command}
	if of.session == nil {
		return nil, fmt.Errorf("the Session %s of Turn %s does not exist. Create it, or delete the Turn",
			of.turn.Spec.SessionRef.Name, of.turn.Name)
	}
	if of.turn != nil {
		s.Turns = []v1alpha1.Turn{*of.turn}
		return s, nil
	}
	err = pages(ctx, c, func(l *v1alpha1.TurnList) {
		for i := range l.Items {
			t := &l.Items[i]
			if t.Spec.SessionRef.Name == of.session.Name && !pending.Ended(t) && len(s.Turns) < maxTurns {
				s.Turns = append(s.Turns, *t)
			}
		}
	})
	return s, err
}
