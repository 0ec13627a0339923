package access

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/history"
	"github.com/capstan-dev/capstan/internal/cli/pending"
	"github.com/capstan-dev/capstan/internal/runtime/restclient"
	"github.com/capstan-dev/capstan/internal/version"
)

// Program is the name of the program in requests.
const Program = "kubectl-capstan"

// The rate of requests. A conversation is read entry by entry.
const (
	requestsPerSecond = 200
	requestsAtOnce    = 400
)

// Cluster is a cluster as its user sees it.
type Cluster struct {
	client.WithWatch
	// Config of the connection.
	Config *rest.Config
	// Namespace that the commands work in.
	Namespace string
	// Journal reads the journals of Sessions.
	Journal *history.Reader
	// Command is the beginning of the commands that the user is shown.
	Command pending.Command
}

// Connect reads the kubeconfig and the flags. It makes no request.
func Connect(flags *genericclioptions.ConfigFlags) (*Cluster, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	config.QPS, config.Burst = requestsPerSecond, requestsAtOnce
	config.UserAgent = version.Get().UserAgent(Program)
	config.WarningHandler = rest.NoWarnings{}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	rests, err := restclient.ForConfig(config, nil, Program)
	if err != nil {
		return nil, err
	}
	return &Cluster{
		WithWatch: c, Config: config, Namespace: namespace, Journal: history.New(rests), Command: command(flags),
	}, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("registering the kinds: %w", err)
		}
	}
	return scheme, nil
}

// command repeats the flags that the user has named the cluster and the namespace with.
func command(flags *genericclioptions.ConfigFlags) pending.Command {
	command := "kubectl capstan"
	if flags.Context != nil && *flags.Context != "" {
		command += " --context " + pending.Quoted(*flags.Context)
	}
	if flags.Namespace != nil && *flags.Namespace != "" {
		command += " -n " + pending.Quoted(*flags.Namespace)
	}
	return pending.Command(command)
}

// Key returns the key of an object in the namespace of the cluster.
func (c *Cluster) Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: name}
}

// User returns the user's name at the API server.
func (c *Cluster) User(ctx context.Context) (string, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, review); err != nil {
		return "", fmt.Errorf("asking the API server for your user name: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// acceptance is how long the result of a ToolResult is waited for.
const acceptance = 15 * time.Second

// Send creates a ToolResult, and waits until its Turn has accepted or refused it. The result is the condition Accepted;
// nil if the manager has not decided within a time.
func (c *Cluster) Send(ctx context.Context, result *v1alpha1.ToolResult) (*metav1.Condition, error) {
	if err := c.Create(ctx, result); err != nil {
		return nil, fmt.Errorf("creating the ToolResult: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, acceptance)
	defer cancel()
	list := &v1alpha1.ToolResultList{}
	named := client.MatchingFields{"metadata.name": result.Name}
	if err := c.List(ctx, list, client.InNamespace(result.Namespace), named); err != nil {
		return nil, fmt.Errorf("reading the ToolResult: %w", err)
	}
	for i := range list.Items {
		if decided := accepted(&list.Items[i]); decided != nil {
			return decided, nil
		}
	}
	watcher, err := c.Watch(ctx, &v1alpha1.ToolResultList{}, client.InNamespace(result.Namespace), named,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return nil, fmt.Errorf("watching the ToolResult: %w", err)
	}
	defer watcher.Stop()
	for e := range watcher.ResultChan() {
		if changed, ok := e.Object.(*v1alpha1.ToolResult); ok {
			if decided := accepted(changed); decided != nil {
				return decided, nil
			}
		}
	}
	return nil, nil
}

func accepted(result *v1alpha1.ToolResult) *metav1.Condition {
	for i := range result.Status.Conditions {
		c := &result.Status.Conditions[i]
		if c.Type == v1alpha1.ConditionAccepted && c.Status != metav1.ConditionUnknown {
			return c
		}
	}
	return nil
}

// IsMissing reports whether an object does not exist.
func IsMissing(err error) bool {
	return apierrors.IsNotFound(err)
}
