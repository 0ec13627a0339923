// Package access connects to the cluster of the user's kubeconfig, and explains the errors of its API server.
package access
