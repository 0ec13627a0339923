// Package streamclient follows the events of Sessions at the manager: it finds the address, connects with the
// credentials of a kubeconfig, and connects again where it was interrupted.
package streamclient
