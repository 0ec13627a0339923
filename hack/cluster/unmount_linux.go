package main

import "syscall"

func unmount(target string) error { return syscall.Unmount(target, syscall.MNT_DETACH) }
