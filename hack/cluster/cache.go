package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// cacheRoot is where binaries, images and the state of clusters live: never the work tree, so that a fresh checkout on
// the same machine builds nothing again.
func cacheRoot() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		var err error
		if base, err = os.UserCacheDir(); err != nil {
			return "", fmt.Errorf("finding the user's cache directory (set XDG_CACHE_HOME): %w", err)
		}
	}
	base, err := filepath.Abs(base)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", fmt.Errorf("making the user's cache directory: %w", err)
	}
	// The kernel reports mounts and processes by resolved paths, and those are compared with ours.
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return "", fmt.Errorf("resolving the user's cache directory: %w", err)
	}
	return filepath.Join(base, "capstan"), nil
}

func binariesRoot() (string, error) {
	root, err := cacheRoot()
	return filepath.Join(root, "cluster"), err
}

// assetsDir holds the programs of the current versions.
func assetsDir() (string, error) {
	root, err := binariesRoot()
	return filepath.Join(root, versionsName()), err
}

func clustersRoot() (string, error) {
	root, err := cacheRoot()
	return filepath.Join(root, "clusters"), err
}

// isModule reports whether dir is the root of the Go module of that path.
func isModule(dir, path string) bool {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(content), "\n")
	return strings.TrimSpace(first) == "module "+path
}

// lockFile takes an exclusive lock that the kernel releases when the process ends, however it ends. It calls waiting
// once if another process holds it.
func lockFile(path string, waiting func()) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of a lock: %w", err)
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a lock: %w", err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		waiting()
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}
