package access

import (
	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// Streams returns a follower of the event streams of the manager in a namespace.
func (c *Cluster) Streams(managers string) (stream.Follower, error) {
	return streamclient.New(c.Config, managers)
}
