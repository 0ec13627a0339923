package inprocess_test

import (
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

func BenchmarkTurn(b *testing.B) {
	for name, script := range map[string][]string{"without tools": nil, "with three tools": {"look", "look", "look"}} {
		b.Run(name, func(b *testing.B) {
			simulation := calling()
			if script != nil {
				simulation = calling(script)
			}
			runtime := start(b, inprocess.WithSimulation(simulation), inprocess.WithTools(returns("seen")))
			sessions := 0
			for b.Loop() {
				sessions++
				session := fmt.Sprintf("s-%d", sessions)
				of, err := runtime.LoadContext(b.Context(), "demo")
				if err != nil {
					b.Fatal(err)
				}
				of.Session.Name, of.Session.UID = session, ""
				if err := runtime.Apply(of.Session); err != nil {
					b.Fatal(err)
				}
				turn := message(session, "Go.")
				turn.Spec.SessionRef.Name = session
				run(b, runtime, turn)
			}
		})
	}
}
