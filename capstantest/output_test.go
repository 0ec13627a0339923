package capstantest

import (
	"io"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestALogIsFollowedToItsEndOrItsLimit(t *testing.T) {
	for name, test := range map[string]struct {
		most int64
		want string
	}{"end": {100, "onetwoframe"}, "limit": {4, "onet"}} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(t.Name())}}
			output := outputOf(pod.UID)
			_, _ = io.WriteString(output, "one")
			log, err := (&player{}).FollowToolLog(t.Context(), pod, test.most)
			if err != nil {
				t.Fatal(err)
			}
			begin := make([]byte, 3)
			if _, err := io.ReadFull(log, begin); err != nil || string(begin) != "one" {
				t.Fatalf("read %q, %v", begin, err)
			}
			_, _ = io.WriteString(output, "two")
			output.end([]byte("frame"))
			rest, err := io.ReadAll(log)
			if got := string(begin) + string(rest); got != test.want || err != nil {
				t.Errorf("read %q, %v", got, err)
			}
			if err := log.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
