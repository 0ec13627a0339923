//go:build !linux

package shell

import "errors"

// confine fails: scripts run on Linux only.
func confine() error {
	return errors.New("scripts can be confined on Linux only")
}
