package runner

import (
	"errors"
	"fmt"
	"io"
)

// Argument makes the manager a process that runs one program and nothing else.
const Argument = "run-program"

// Program is what a process can run.
type Program struct {
	// Name that the other side asks for it by.
	Name string
	// Warm is called before the process is confined and before anything of a tenant is known: a first use in a process
	// takes several times as long as the others. It may be nil.
	Warm func()
	// Serve runs the program for one call: it reads its request from in and writes its messages to out. The error is for
	// the exit code of the process alone.
	Serve func(in io.Reader, out io.Writer) error
}

// Main runs one of the programs for one call. It returns the exit code of the process.
func Main(in io.Reader, out io.Writer, programs ...Program) int {
	for _, p := range programs {
		if p.Warm != nil {
			p.Warm()
		}
	}
	if err := confine(); err != nil {
		_ = Send(out, maxHelloBytes, hello{Error: "the process cannot be confined: " + err.Error()})
		return 1
	}
	if err := serve(in, out, programs); err != nil {
		return 1
	}
	return 0
}

// serve runs the program that is asked for.
func serve(in io.Reader, out io.Writer, programs []Program) error {
	if err := Send(out, maxHelloBytes, hello{Ready: true}); err != nil {
		return err
	}
	var s start
	if err := Receive(in, maxHelloBytes, &s); err != nil {
		if errors.Is(err, io.EOF) {
			// The process is not needed any more.
			return nil
		}
		return err
	}
	for _, p := range programs {
		if p.Name == s.Program {
			return p.Serve(in, out)
		}
	}
	return fmt.Errorf("unknown program %q", s.Program)
}
