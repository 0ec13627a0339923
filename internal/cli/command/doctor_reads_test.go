package command

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/cli/diagnosis"
)

// asked is a cluster that notes what is read of it.
type asked struct {
	client.WithWatch
	objects []client.Object
}

// Get implements client.Reader.
func (a *asked) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	a.objects = append(a.objects, object)
	return nil
}

// TestTheDataOfSecretsIsNotRead: a read of metadata brings no data to the machine of the user.
func TestTheDataOfSecretsIsNotRead(t *testing.T) {
	cluster := &asked{}
	model := v1alpha1.Model{}
	model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "keys", Key: "api"}
	n := &diagnosis.Namespace{
		Models: []v1alpha1.Model{model}, Secrets: map[string]*metav1.PartialObjectMetadata{},
	}
	if err := readSecrets(t.Context(), &access.Cluster{WithWatch: cluster}, n); err != nil {
		t.Fatal(err)
	}
	if len(cluster.objects) != 1 || n.Secrets["keys"] == nil {
		t.Fatalf("read %v, found %v", cluster.objects, n.Secrets)
	}
	if _, partial := cluster.objects[0].(*metav1.PartialObjectMetadata); !partial {
		t.Errorf("a %T was read", cluster.objects[0])
	}
	if kind := cluster.objects[0].GetObjectKind().GroupVersionKind().String(); kind != "/v1, Kind=Secret" {
		t.Errorf("kind %s was read", kind)
	}
}
