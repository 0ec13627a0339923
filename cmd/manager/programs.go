package main

import (
	"os"

	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlite"
)

// runsProgram reports whether this process is one for a program of a tenant, and runProgram runs it.
func runsProgram(args []string) bool { return len(args) == 2 && args[1] == runner.Argument }

func runProgram() int { return runner.Main(os.Stdin, os.Stdout, shell.Program, sqlite.Program) }

// startPrograms sets what runs the programs of tenants, and returns what ends their processes. Scripts of hooks and
// calls of SQL databases have places of their own: neither waits for the other.
func (o *options) startPrograms() (stop func()) {
	pool := func(processes int, resource string) *runner.Pool {
		return runner.NewPool(runner.Options{
			Command: []string{"/proc/self/exe", runner.Argument}, Processes: processes, Waited: shares.Waited(resource),
		})
	}
	scripts, queries := pool(o.scripts, shares.Scripts), pool(o.sqlCalls, shares.SQLCalls)
	o.controllers.Scripts, o.controllers.Queries = bash.Confined{Pool: scripts}, sessiondb.Confined{Pool: queries}
	return func() {
		scripts.Close()
		queries.Close()
	}
}
