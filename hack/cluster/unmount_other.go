//go:build !linux

package main

import "errors"

func unmount(string) error { return errors.New("only Linux has clusters to take down") }
