// Package config merges the configuration layers of a Session: the chain of its Harnesses (CFG-01), the merged layers
// (CFG-02, CFG-03), the reason that blocks its Turns (BLK-01) and the Model to call (CFG-07). Everything here is pure:
// callers read the objects.
package config
