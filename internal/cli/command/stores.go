package command

import (
	"context"
	"fmt"
	"io"
	"os"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/access"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	records "github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// stores is how the commands for what a Session stores reach it: by the manager, or by Records where these can be read.
type stores struct {
	manager *streamclient.Client
	records record.Store
	session stream.Session
	// of is the Session for the services on records.
	of record.Session
}

// storesOf returns the stores of a Session, by its name.
func (p *program) storesOf(ctx context.Context, name string) (*stores, error) {
	c, err := p.connect()
	if err != nil {
		return nil, err
	}
	session, err := findSession(ctx, c, name)
	if err != nil {
		return nil, err
	}
	return p.storesAt(c, session)
}

// storesAt returns the stores of a Session of a cluster.
func (p *program) storesAt(c *access.Cluster, session *v1alpha1.Session) (*stores, error) {
	manager, err := c.Manager(p.managers)
	if err != nil {
		return nil, err
	}
	objects, err := records.ForConfig(c.Config, nil)
	if err != nil {
		return nil, err
	}
	return &stores{
		manager: manager, records: record.New(objects, record.Options{}),
		session: stream.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID},
		of:      record.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID},
	}, nil
}

// local reads a file of the user, or the standard input for "-", up to one byte more than a number of bytes.
func (p *program) local(file string, most int64) ([]byte, error) {
	source := p.in
	if file != "-" {
		opened, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading a file: %w", err)
		}
		defer func() { _ = opened.Close() }() // It was only read.
		source = opened
	}
	content, err := io.ReadAll(io.LimitReader(source, most+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return content, nil
}
