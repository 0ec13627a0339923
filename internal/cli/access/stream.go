package access

import (
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// Manager returns a client of the manager in a namespace: of its event streams, and of what it serves beside them.
func (c *Cluster) Manager(managers string) (*streamclient.Client, error) {
	return streamclient.New(c.Config, managers)
}
