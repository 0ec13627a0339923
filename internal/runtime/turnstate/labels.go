package turnstate

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	// maxLabelBytes bounds the labels of a Session that a cache keeps, by which Budgets select it.
	maxLabelBytes = 1 << 10
	// annotationLabelsLeftOut marks a Session that has more, with their digest.
	annotationLabelsLeftOut = "capstan.dev/labels-left-out"
)

// KeepLabels puts all labels of a Session back after a cache has left some out, if they are short enough. Otherwise it
// marks the Session.
func KeepLabels(session *v1alpha1.Session, all map[string]string) {
	bytes := 0
	for key, value := range all {
		bytes += len(key) + len(value)
	}
	if bytes > maxLabelBytes {
		digest := sha256.Sum256([]byte(labels.FormatLabels(all)))
		metav1.SetMetaDataAnnotation(&session.ObjectMeta, annotationLabelsLeftOut, hex.EncodeToString(digest[:16]))
		return
	}
	session.Labels = all
}

// LabelsLeftOut reports whether the Session may have labels that the cache has left out.
func LabelsLeftOut(session *v1alpha1.Session) bool {
	return session.Annotations[annotationLabelsLeftOut] != ""
}

// SameLabels reports whether two cached versions of a Session have the same labels, those included that the cache has
// left out.
func SameLabels(a, b *v1alpha1.Session) bool {
	return maps.Equal(a.Labels, b.Labels) &&
		a.Annotations[annotationLabelsLeftOut] == b.Annotations[annotationLabelsLeftOut]
}
