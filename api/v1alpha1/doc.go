// Package v1alpha1 holds the Capstan API: the kinds of group capstan.dev, their conditions, labels and annotations. It
// has no logic.
//
// +kubebuilder:object:generate=true
// +groupName=capstan.dev
// +kubebuilder:ac:generate=true
// +kubebuilder:ac:output:package="../applyconfiguration"
package v1alpha1
