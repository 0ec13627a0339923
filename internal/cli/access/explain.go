package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
)

// RoleError reports that a request was refused to a user without a role, where the request alone does not tell which.
type RoleError struct {
	Role string
	Err  error
}

// Error implements error.
func (e *RoleError) Error() string { return e.Err.Error() }

// Unwrap returns the refusal.
func (e *RoleError) Unwrap() error { return e.Err }

// Explain returns what to do about an error; empty if there is nothing to add.
func Explain(err error, namespace string) string {
	var authority x509.UnknownAuthorityError
	var network net.Error
	var needs *RoleError
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case clientcmd.IsEmptyConfig(err), clientcmd.IsContextNotFound(err):
		return "Name a cluster: set KUBECONFIG, or use --kubeconfig and --context. See: kubectl config get-contexts"
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && isUnserved(err):
		return "This cluster has not the kinds of Capstan. Check the context (kubectl config current-context), " +
			"or install Capstan."
	case apierrors.IsUnauthorized(err):
		return "The API server does not know you. Log in again, or check the user of the context: " +
			"kubectl config view --minify"
	case errors.As(err, &needs):
		return permits(needs.Role, namespace)
	case apierrors.IsForbidden(err):
		return forbidden(err, namespace)
	case errors.As(err, &authority):
		return "The certificate of the API server is not trusted: check certificate-authority in the kubeconfig."
	case errors.As(err, &network):
		return "The API server cannot be reached: check the context (kubectl config current-context) and the network."
	default:
		return ""
	}
}

// isUnserved reports whether the API server does not serve the kind at all.
func isUnserved(err error) bool {
	return apierrors.IsUnexpectedServerError(err) || strings.Contains(err.Error(), "could not find the requested resource")
}

// denied finds what was denied in the message of an API server.
var denied = regexp.MustCompile(`cannot (\w+) resource "([a-z/]+)" in API group "([a-z.]*)"`)

// forbidden names the role that permits what was denied.
func forbidden(err error, namespace string) string {
	found := denied.FindStringSubmatch(err.Error())
	if found == nil || found[3] != "capstan.dev" {
		return ""
	}
	return permits(role(found[1], found[2]), namespace)
}

func permits(role, namespace string) string {
	return fmt.Sprintf("The role %s permits it. An administrator binds it: kubectl create rolebinding NAME -n %s "+
		"--clusterrole=%s --user=USER", role, namespace, role)
}

func role(verb, resource string) string {
	switch {
	case verb == "get" || verb == "list" || verb == "watch":
		return "capstan-view"
	case verb == "approve":
		return "capstan-approve"
	case resource == "sessions" || resource == "sessions/files" || resource == "turns" || resource == "toolresults":
		return "capstan-edit"
	default:
		return "capstan-tools"
	}
}
