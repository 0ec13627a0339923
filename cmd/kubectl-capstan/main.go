// Command kubectl-capstan is a plugin of kubectl for people who talk to agents, read their conversations and decide
// about their calls.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // A second Ctrl-C ends the program whatever it does.
	code := command.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
