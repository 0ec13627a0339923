package trust

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/cert"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func ofConfigMap(key string) *v1alpha1.CABundleSource {
	return &v1alpha1.CABundleSource{ConfigMapKeyRef: &v1alpha1.ConfigMapKeyReference{Name: "ca", Key: key}}
}

func ofSecret(key string) *v1alpha1.CABundleSource {
	return &v1alpha1.CABundleSource{SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "ca", Key: key}}
}

// reading returns a Reader of one Secret and one ConfigMap with the same keys, or of an error.
func reading(data map[string]string, err error) Reader {
	return Reader{
		Secrets: func(context.Context, string, string) (*corev1.Secret, error) {
			secret := &corev1.Secret{Data: map[string][]byte{}}
			for key, value := range data {
				secret.Data[key] = []byte(value)
			}
			return secret, err
		},
		ConfigMaps: func(context.Context, string, string) (*corev1.ConfigMap, error) {
			return &corev1.ConfigMap{Data: data}, err
		},
	}
}

func TestCertificatesAreReadFromASecretOrAConfigMap(t *testing.T) {
	certificate, _, err := cert.GenerateSelfSignedCertKey("models", []net.IP{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string]string{
		"ca.crt": string(certificate), "bad": "no certificate", "large": strings.Repeat("x", MaxBundleBytes+1),
	}
	for _, source := range []func(string) *v1alpha1.CABundleSource{ofConfigMap, ofSecret} {
		bundle, problem, err := reading(data, nil).Read(t.Context(), "ns", source("ca.crt"))
		if err != nil || problem != nil || bundle.Roots == nil || bundle.Digest == "" {
			t.Fatalf("%+v, %+v, %v", bundle, problem, err)
		}
		for key, reason := range map[string]string{
			"bad": v1alpha1.ReasonCABundleUnusable, "large": v1alpha1.ReasonCABundleUnusable,
			"none": v1alpha1.ReasonCABundleMissing,
		} {
			bundle, problem, err := reading(data, nil).Read(t.Context(), "ns", source(key))
			if err != nil || problem == nil || problem.Reason != reason || bundle.Roots != nil {
				t.Errorf("%s: %+v, %+v, %v", key, bundle, problem, err)
			}
		}
		for reason, err := range map[string]error{
			v1alpha1.ReasonCABundleMissing: apierrors.NewNotFound(corev1.Resource("x"), "ca"),
			v1alpha1.ReasonRoleMissing:     apierrors.NewForbidden(corev1.Resource("x"), "ca", nil),
		} {
			if _, problem, failed := reading(nil, err).Read(t.Context(), "ns", source("k")); failed != nil ||
				problem == nil || problem.Reason != reason {
				t.Errorf("%s: %+v, %v", reason, problem, failed)
			}
		}
		broken := errors.New("the API server is down")
		if _, problem, err := reading(nil, broken).Read(t.Context(), "ns", source("k")); !errors.Is(err, broken) ||
			problem != nil {
			t.Errorf("%+v, %v", problem, err)
		}
	}
	if bundle, problem, err := reading(nil, nil).Read(t.Context(), "ns", nil); err != nil || problem != nil ||
		bundle.Roots != nil {
		t.Errorf("without a caBundle: %+v, %+v, %v", bundle, problem, err)
	}
}
