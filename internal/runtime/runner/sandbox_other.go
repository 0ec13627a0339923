//go:build !linux

package runner

import "errors"

// confine fails: programs of tenants run on Linux only.
func confine() error {
	return errors.New("processes can be confined on Linux only")
}
