// Package config decides what the configuration layers of a Session come to: the chain of its Harnesses (CFG-01), the
// layers folded into one (CFG-02, CFG-03), what stops its Turns (BLK-01) and which Model answers (CFG-07). Everything
// here is pure: callers read the objects.
package config
