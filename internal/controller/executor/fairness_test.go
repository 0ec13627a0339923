package executor

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestAModelCallIsNotTheLastBehindThoseOfAnotherNamespace(t *testing.T) {
	e, woken := newExecutor(t, 2)
	began, release := make(chan string, 64), make(chan struct{})
	call := func(namespace string) Func {
		return func(context.Context) (any, error) { began <- namespace; <-release; return nil, nil }
	}
	start := func(namespace string, i int) {
		turn := types.UID(fmt.Sprintf("%s-%d", namespace, i))
		e.Ensure(
			Key{Turn: turn, Step: 1},
			types.NamespacedName{Namespace: namespace, Name: string(turn)},
			Need{},
			call(namespace),
		)
	}
	for i := range 40 {
		start("a", i)
	}
	<-began
	<-began
	start("b", 0)
	for n := 3; n <= 41; n++ {
		release <- struct{}{}
		<-woken
		if <-began == "b" {
			if n > 3 {
				t.Errorf("the only call of namespace b is number %d of 41", n)
			}
			close(release)
			return
		}
	}
}
