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
