package kit_test

import (
	"strings"

	"github.com/capstan-dev/capstan/capstantest"
)

// build is a tool that changes a file, creates one, leaves one alone that it may not change, and prints a long text.
func build(call capstantest.Call, started func()) (stdout, stderr string, exit int) {
	started()
	call.Files["/bin/a"] = append([]byte("built of "), call.Files["/src/a"]...)
	call.Files["/src/a"], call.Files["/src/locked"] = []byte("formatted"), []byte("formatted")
	return strings.Repeat("a line\n", 20_000), "", 0
}

// speak is a tool that prints its name.
func speak(call capstantest.Call, started func()) (stdout, stderr string, exit int) {
	started()
	return call.Tool + " of attempt " + string(rune('0'+call.Attempt)), "", 0
}

// unconnected is a tool that needs a connection in its first attempt.
func unconnected(call capstantest.Call, started func()) (stdout, stderr string, exit int) {
	if call.Attempt == 1 && call.Tool != "look" {
		started()
		return "I need a connection to bank.", "no key", 75
	}
	return speak(call, started)
}

// hang is a tool that runs until it is stopped.
func hang(call capstantest.Call, started func()) (stdout, stderr string, exit int) {
	started()
	<-call.Context.Done()
	return "", "", 1
}
