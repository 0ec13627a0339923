// Command launcher runs a tool's command inside its container and reports its outcome.
//
// It is the first process of the container. It starts the command once and never again, gives it its arguments, keeps
// its stdout and stderr apart, ends it when its time is up or the pod is stopped, ends every process that it left
// behind, and only then writes the report that the manager reads (package result).
//
//	launcher run -- command [argument ...]
//	launcher copy destination
//	launcher platform
package main

import (
	"fmt"
	"os"

	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const usage = `usage:
  launcher run -- command [argument ...]   run a tool's command and report its end
  launcher copy destination                copy this program to a file
  launcher platform                        be the tool of the capability platform that the environment names
`

func main() {
	os.Exit(dispatch(os.Args[1:]))
}

// dispatch returns the exit code of the program.
func dispatch(arguments []string) int {
	switch {
	case len(arguments) >= 3 && arguments[0] == "run" && arguments[1] == "--":
		return run(arguments[2:], os.Environ(), os.Stdout)
	case len(arguments) == 2 && arguments[0] == "copy":
		if err := copySelf(arguments[1]); err != nil {
			return complain(err)
		}
		return 0
	case len(arguments) == 1 && arguments[0] == platform.Command:
		return platform.MainOfProcess()
	default:
		fmt.Fprint(os.Stderr, usage)
		return result.ExitLauncher
	}
}

// complain writes an error to the container's log and returns the exit code that goes with it.
func complain(err error) int {
	fmt.Fprintln(os.Stderr, "launcher:", err)
	return result.ExitLauncher
}
