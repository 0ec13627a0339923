package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

func TestTheSettingsOfPostgreSQL(t *testing.T) {
	const url = "--postgres-connection=postgres://capstan@db.example/capstan"
	for name, test := range map[string]struct {
		args []string
		err  string
	}{
		"none":                   {nil, ""},
		"a database":             {[]string{"--store=postgres", url}, ""},
		"a database of the past": {[]string{url}, ""},
		"all": {[]string{
			"--store=postgres", url, "--postgres-credentials=/c", "--postgres-ca=/ca.crt", "--postgres-connections=4",
			"--postgres-statement-timeout=1s", "--postgres-retention=1h",
		}, ""},
		"another store":   {[]string{"--store=etcd"}, `invalid --store "etcd": must be kubernetes or postgres`},
		"no connection":   {[]string{"--store=postgres"}, "--store=postgres requires --postgres-connection"},
		"a password":      {[]string{"--postgres-connection=postgres://u:secret@db/x"}, "must not have a password"},
		"settings of TLS": {[]string{url + "?sslmode=disable"}, "must not set sslmode"},
		"one connection":  {[]string{url, "--postgres-connections=1"}, "invalid number of connections 1"},
		"a short time":    {[]string{url, "--postgres-retention=59m"}, "invalid --postgres-retention 59m0s"},
		"a long time-out": {[]string{url, "--postgres-statement-timeout=2h"}, "invalid time-out of statements 2h0m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(append(test.args, "--launcher-image=example.org/launcher:1"))
			switch {
			case test.err == "" && err != nil:
				t.Error(err)
			case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("the error is %v, want one with %q", err, test.err)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// Without a flag TLS verifies the server, and nothing is kept in a database.
func TestTheDefaultsOfPostgreSQL(t *testing.T) {
	o, err := parse([]string{"--launcher-image=i", "--postgres-connection=host=db.example dbname=x"})
	if err != nil {
		t.Fatal(err)
	}
	d := o.database
	if d.store != storeKubernetes || d.config.TLS == postgres.TLSDisabled || d.retention != 24*time.Hour {
		t.Errorf("%+v", d)
	}
	o, err = parse([]string{"--launcher-image=i", "--postgres-connection=host=db.example", "--postgres-plaintext"})
	if err != nil || o.database.config.TLS != postgres.TLSDisabled {
		t.Errorf("%+v, %v", o.database, err)
	}
}

// Event streams have connections of their own if their account is set, with the settings of the others and without the
// right to change anything.
func TestTheReaderOfPostgreSQL(t *testing.T) {
	base := []string{
		"--launcher-image=i", "--postgres-connection=postgres://capstan@db.example/capstan", "--postgres-ca=/ca.crt",
		"--postgres-credentials=/writer", "--postgres-statement-timeout=3s",
	}
	for name, test := range map[string]struct {
		args       []string
		set        bool
		connection string
		err        string
	}{
		"none": {nil, false, "", ""},
		"other credentials": {
			[]string{"--postgres-reader-credentials=/reader"}, true, "postgres://capstan@db.example/capstan", "",
		},
		"another connection": {
			[]string{"--postgres-reader-connection=postgres://reader@db.example/capstan", "--postgres-reader-connections=9"},
			true, "postgres://reader@db.example/capstan", "",
		},
		"a password": {
			[]string{"--postgres-reader-connection=postgres://reader:secret@db.example/capstan"},
			true, "",
			"invalid settings of the reader of PostgreSQL: the connection string must not have a password",
		},
		"one connection": {
			[]string{"--postgres-reader-credentials=/reader", "--postgres-reader-connections=1"},
			true, "",
			"invalid number of connections 1",
		},
		"no database": {
			[]string{"--postgres-connection=", "--postgres-reader-credentials=/reader"},
			true, "",
			"require --postgres-connection",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parse(append(base, test.args...))
			if test.err != "" || err != nil {
				if test.err == "" || err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("the error is %v, want %q", err, test.err)
				}
				return
			}
			r := &o.database.reader
			if r.set() != test.set {
				t.Fatalf("%+v", r)
			}
			c := r.config(o.database.config)
			if test.set && (c.Connection != test.connection || !c.ReadOnly || c.AuthorityFile != "/ca.crt" ||
				c.StatementTimeout != 3*time.Second || c.Credentials == "/writer" || c.MaxConnections != r.connections) {
				t.Errorf("%+v", c)
			}
		})
	}
}
