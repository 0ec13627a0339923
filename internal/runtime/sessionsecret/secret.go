package sessionsecret

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// MaxNameBytes is the maximum length of the name of a secret.
	MaxNameBytes = 63
	// MinValueBytes is the minimum length of a value. A shorter one could not be removed from responses: it occurs in any
	// text.
	MinValueBytes = 4
	// MaxValueBytes is the maximum length of a value.
	MaxValueBytes = 16 << 10
	// MaxNames is the maximum number of secrets of a Session.
	MaxNames = 64
	// MaxBytes is the maximum number of bytes of the values of a Session.
	MaxBytes = 512 << 10
	// maxEntryBytes is the maximum size of the annotation of a secret.
	maxEntryBytes = 4 << 10
)

// Name returns the name of the Secret with the secrets of a Session.
func Name(session types.UID) string { return "session-secrets-" + string(session) }

var (
	validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	validID   = regexp.MustCompile(`^[a-z0-9]{8,64}$`)
)

// ValidName reports whether a text can be the name of a secret: the key of a Secret's data and the name of an
// annotation.
func ValidName(name string) bool { return validName.MatchString(name) }

// ValueProblem returns why a text cannot be the value of a secret; empty if it can. Other characters than these have
// too many forms in responses to be removed from them.
func ValueProblem(value string) string {
	switch {
	case len(value) < MinValueBytes || len(value) > MaxValueBytes:
		return fmt.Sprintf("it has %d bytes, and must have %d to %d", len(value), MinValueBytes, MaxValueBytes)
	case strings.ContainsFunc(value, func(r rune) bool {
		return (r < ' ' || r > '~') && !strings.ContainsRune("\t\r\n", r)
	}):
		return "it has characters other than printable ASCII, tabs and line breaks"
	default:
		return ""
	}
}

// Entry is what is known of a secret beside its value.
type Entry struct {
	// ID is another one for each value.
	ID string `json:"id"`
	// Hosts that the value may be sent to, as in v1alpha1.AnnotationAllowedHosts. Empty for none.
	Hosts string `json:"hosts"`
}

// secret is a secret of a Session.
type secret struct {
	Entry
	value string
	// problem is why it cannot be sent anywhere; empty if it can.
	problem string
}

// unusable returns why a Secret does not have the secrets of a Session; empty if it has.
func unusable(s *corev1.Secret, of record.Session) string {
	hosts, bound := s.Annotations[v1alpha1.AnnotationAllowedHosts]
	switch {
	case s.Labels[v1alpha1.LabelSessionSecrets] != string(of.UID):
		return fmt.Sprintf("has no label %s with the UID of the Session", v1alpha1.LabelSessionSecrets)
	case s.Annotations[v1alpha1.AnnotationSecretsSession] != of.Name:
		return fmt.Sprintf("does not have the name of the Session in its annotation %s", v1alpha1.AnnotationSecretsSession)
	case !bound || hosts != "":
		return fmt.Sprintf("needs an empty annotation %s, so that nothing else sends it", v1alpha1.AnnotationAllowedHosts)
	case len(s.Data) > MaxNames:
		return fmt.Sprintf("has more than %d keys", MaxNames)
	default:
		return ""
	}
}

// toHide returns the values of a Secret that may have been sent, whatever makes them unusable now. It is bounded, and
// has nothing of a Secret with more keys than a Session can have secrets, which no call uses.
func toHide(s *corev1.Secret) []string {
	if len(s.Data) > MaxNames {
		return nil
	}
	var values []string
	for _, value := range s.Data {
		if len(value) >= MinValueBytes && len(value) <= MaxValueBytes {
			values = append(values, string(value))
		}
	}
	return values
}

// parse returns the secrets of a Secret, by name. Keys that cannot be names are left out.
func parse(s *corev1.Secret) map[string]secret {
	all := make(map[string]secret, len(s.Data))
	for name, value := range s.Data {
		if !ValidName(name) {
			continue
		}
		one := secret{value: string(value), problem: ValueProblem(string(value))}
		entry := s.Annotations[v1alpha1.AnnotationSecretPrefix+name]
		if len(entry) > maxEntryBytes || json.Unmarshal([]byte(entry), &one.Entry) != nil || !validID.MatchString(one.ID) {
			one.Entry = Entry{}
			one.problem = fmt.Sprintf("its annotation %s%s is missing or invalid", v1alpha1.AnnotationSecretPrefix, name)
		}
		all[name] = one
	}
	return all
}
