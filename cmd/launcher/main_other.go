//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "launcher: runs in Linux containers only")
	os.Exit(1)
}
