package main

import (
	"fmt"
	"io"
	"os"
)

// copySelf copies this program to destination, from where another container can run it. The file appears whole or not
// at all.
func copySelf(destination string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the launcher: %w", err)
	}
	from, err := os.Open(self)
	if err != nil {
		return fmt.Errorf("opening the launcher: %w", err)
	}
	defer from.Close()
	partial := destination + ".partial"
	if err := copyTo(partial, from); err != nil {
		return fmt.Errorf("copying the launcher to %s: %w", destination, err)
	}
	if err := os.Rename(partial, destination); err != nil {
		return fmt.Errorf("copying the launcher to %s: %w", destination, err)
	}
	return nil
}

func copyTo(path string, from io.Reader) error {
	to, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	// The mode given at creation is subject to the umask.
	if err := to.Chmod(0o755); err != nil {
		return err
	}
	return to.Close()
}
