package main

import (
	"os"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
)

func TestMain(m *testing.M) {
	if runsProgram(os.Args) {
		os.Exit(runProgram())
	}
	os.Exit(m.Run())
}

// Hostile tenants hold all places of one kind without an end; programs of the other kind run, also their own.
func TestScriptsAndSQLCallsDoNotTakeEachOthersPlaces(t *testing.T) {
	const hostile = "hostile"
	o := options{scripts: 2, sqlCalls: 2}
	t.Cleanup(o.startPrograms())
	scripts, queries := o.controllers.Scripts.(bash.Confined), o.controllers.Queries.(sessiondb.Confined)
	script := func(namespace string) error {
		_, err := scripts.Run(t.Context(), namespace, 10*time.Second,
			shell.Request{Command: "echo fine", TimeoutMillis: 10_000}, nil)
		return err
	}
	database := &sessiondb.Service{
		Records: record.New(memory.New(), record.Options{}), Processes: queries, Writes: sessiondb.NewWrites(),
	}
	sql := func(namespace string) error {
		_, err := database.Of(sessiondb.Session{Namespace: namespace, Name: "s", UID: "s"}).
			Execute(t.Context(), record.Cause{Key: "call-" + namespace}, "db", sessiondb.Statement{SQL: "CREATE TABLE t (a)"})
		return err
	}
	for name, test := range map[string]struct {
		filled *fairshare.Pool
		run    func(namespace string) error
	}{
		"SQL calls without an end": {queries.Pool.Places(), script},
		"scripts without an end":   {scripts.Pool.Places(), sql},
	} {
		t.Run(name, func(t *testing.T) {
			share := test.filled.Hold(hostile, fairshare.Amount{Places: 2})
			defer share.Release()
			for _, namespace := range []string{"bystander", hostile} {
				if err := test.run(namespace); err != nil {
					t.Errorf("namespace %s: %v", namespace, err)
				}
			}
		})
	}
}
