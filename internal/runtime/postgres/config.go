package postgres

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// TLS is how the identity of the server is verified.
type TLS string

const (
	// TLSVerifyFull requires a certificate of a trusted authority for the name of the host.
	TLSVerifyFull TLS = "VerifyFull"
	// TLSDisabled sends everything in plain text, passwords excepted if the server uses SCRAM.
	TLSDisabled TLS = "Disabled"
)

// The files of a directory of credentials, as in a Secret of type kubernetes.io/basic-auth.
const (
	userFile     = "username"
	passwordFile = "password"
)

const (
	// DefaultMaxConnections is the default of Config.MaxConnections.
	DefaultMaxConnections = 16
	// DefaultStatementTimeout is the default of Config.StatementTimeout.
	DefaultStatementTimeout = 10 * time.Second

	maxCredentialBytes = 4 << 10
	maxAuthorityBytes  = 1 << 20
	connectTimeout     = 5 * time.Second
	// grace is how long the server may take beyond the time-out of the statement, in which it commits and waits for its
	// synchronous standby.
	grace = 20 * time.Second
)

// Config is how the database is connected to.
type Config struct {
	// Connection is a connection string of libpq: a URL or keywords and values, with several hosts perhaps. It has no
	// password and no settings of TLS. Required.
	Connection string
	// Credentials is the directory of the files username and password, at most 4 KiB each. They are read for each new
	// connection, so that they may change. Default: the user of the connection string, without a password.
	Credentials string
	// TLS is how the server is verified. Default: VerifyFull. A Unix socket has none.
	TLS TLS
	// AuthorityFile has the certificates of the authorities that are trusted, as PEM, at most 1 MiB. It is read for each
	// new connection. Default: those of the system.
	AuthorityFile string
	// MaxConnections bounds the connections. Default 16.
	MaxConnections int
	// StatementTimeout bounds each statement in the server. Default 10s.
	StatementTimeout time.Duration
	// ReadOnly is for connections on which nothing is changed.
	ReadOnly bool
	// Observe is called at the end of every try of a Read or a Write, with its time from the request for a connection on.
	// That no row was found is no error. It may be nil.
	Observe func(write bool, took time.Duration, err error)
	// Waited is called with the waiting time of each statement for a connection. It may be nil.
	Waited func(namespace string, waited time.Duration)
}

// withDefaults sets the default of every unset field.
func (c Config) withDefaults() Config {
	c.TLS = cmp.Or(c.TLS, TLSVerifyFull)
	c.MaxConnections = cmp.Or(c.MaxConnections, DefaultMaxConnections)
	c.StatementTimeout = cmp.Or(c.StatementTimeout, DefaultStatementTimeout)
	return c
}

// Validate returns the error of an invalid configuration, without what it was set to.
func (c Config) Validate() error {
	_, err := c.withDefaults().pool()
	return err
}

// unwanted are the settings of a connection string that other fields have, or that would be a secret in the arguments
// of the process.
var unwanted = []string{
	"password", "passfile", "sslpassword", "sslmode", "sslrootcert", "sslcert", "sslkey", "sslnegotiation", "service",
	"servicefile", "target_session_attrs", "statement_timeout", "options",
}

// pool returns the configuration of the pool of connections.
func (c Config) pool() (*pgxpool.Config, error) {
	if c.Connection == "" {
		return nil, errors.New("the connection string is missing")
	}
	if c.TLS != TLSVerifyFull && c.TLS != TLSDisabled {
		return nil, fmt.Errorf("invalid mode of TLS %q: must be %s or %s", c.TLS, TLSVerifyFull, TLSDisabled)
	}
	if c.MaxConnections < 2 || c.MaxConnections > 1000 {
		return nil, fmt.Errorf("invalid number of connections %d: must be between 2 and 1000", c.MaxConnections)
	}
	if c.StatementTimeout < 100*time.Millisecond || c.StatementTimeout > time.Hour {
		return nil, fmt.Errorf("invalid time-out of statements %s: must be between 100ms and 1h", c.StatementTimeout)
	}
	text, err := withoutTLS(c.Connection)
	if err != nil {
		return nil, err
	}
	p, err := pgxpool.ParseConfig(text)
	if err != nil {
		// The error of the parser may quote the text.
		return nil, errors.New("invalid connection string: must be a URL or keywords and values of libpq")
	}
	if p.ConnConfig.Password != "" {
		return nil, errors.New("the connection string, or the environment, has a password: use a file of credentials")
	}
	c.connection(&p.ConnConfig.Config)
	p.MaxConns = int32(c.MaxConnections) //nolint:gosec // bounded above
	p.MinConns, p.MinIdleConns = 0, 0
	p.MaxConnLifetime, p.MaxConnLifetimeJitter, p.MaxConnIdleTime = 30*time.Minute, 5*time.Minute, 5*time.Minute
	p.PingTimeout = connectTimeout
	p.BeforeConnect = c.beforeConnect
	p.AfterConnect = c.afterConnect
	return p, nil
}

// withoutTLS checks the settings of a connection string and adds the one that leaves TLS to this package.
func withoutTLS(text string) (string, error) {
	isURL := strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
	if !isURL {
		for _, name := range unwanted {
			if slices.ContainsFunc(strings.Fields(strings.ReplaceAll(text, "=", " = ")), func(word string) bool {
				return strings.EqualFold(word, name)
			}) {
				return "", fmt.Errorf("the connection string must not set %s", name)
			}
		}
		return text + " sslmode=disable", nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", errors.New("invalid connection string: must be a URL or keywords and values of libpq")
	}
	if _, set := u.User.Password(); set {
		return "", errors.New("the connection string must not have a password")
	}
	query := u.Query()
	for _, name := range unwanted {
		if query.Has(name) {
			return "", fmt.Errorf("the connection string must not set %s", name)
		}
	}
	query.Set("sslmode", "disable")
	u.RawQuery = query.Encode()
	return u.String(), nil
}

// connection sets what is the same for every connection.
func (c Config) connection(config *pgconn.Config) {
	config.ConnectTimeout = connectTimeout
	config.RuntimeParams["application_name"] = "capstan"
	config.RuntimeParams["statement_timeout"] = strconv.FormatInt(c.StatementTimeout.Milliseconds(), 10)
	config.RuntimeParams["idle_in_transaction_session_timeout"] = config.RuntimeParams["statement_timeout"]
	// A standby is behind, and must not be read from either.
	config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	if c.ReadOnly {
		config.RuntimeParams["default_transaction_read_only"] = "on"
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsPrimary
	}
}

// beforeConnect reads the credentials and the trusted authorities for a new connection.
func (c Config) beforeConnect(_ context.Context, config *pgx.ConnConfig) error {
	if c.Credentials != "" {
		user, err := readFile(filepath.Join(c.Credentials, userFile), maxCredentialBytes)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("reading the user name for PostgreSQL: %w", err)
		}
		password, err := readFile(filepath.Join(c.Credentials, passwordFile), maxCredentialBytes)
		if err != nil {
			return fmt.Errorf("reading the password for PostgreSQL: %w", err)
		}
		config.User = cmp.Or(strings.TrimSpace(string(user)), config.User)
		config.Password = strings.TrimRight(string(password), "\r\n")
	}
	roots, err := c.authorities()
	if err != nil {
		return err
	}
	config.TLSConfig = c.tls(config.Host, roots)
	for _, further := range config.Fallbacks {
		further.TLSConfig = c.tls(further.Host, roots)
	}
	return nil
}

// authorities returns the trusted ones; nil for those of the system.
func (c Config) authorities() (*x509.CertPool, error) {
	if c.TLS == TLSDisabled || c.AuthorityFile == "" {
		return nil, nil
	}
	pem, err := readFile(c.AuthorityFile, maxAuthorityBytes)
	if err != nil {
		return nil, fmt.Errorf("reading the authorities for PostgreSQL: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, errors.New("the file of authorities for PostgreSQL has no certificate")
	}
	return roots, nil
}

// tls returns the settings for a host; nil for none.
func (c Config) tls(host string, roots *x509.CertPool) *tls.Config {
	if c.TLS == TLSDisabled || filepath.IsAbs(host) {
		return nil
	}
	return &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// readFile reads a file of at most so many bytes.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = fmt.Errorf("it has more than %d bytes", limit)
	}
	return content, err
}

// durable makes sure that a commit is durable when it is confirmed. The settings remote_write, on and remote_apply
// stay.
const durable = `
	SELECT set_config('synchronous_commit', 'on', false)
	WHERE current_setting('synchronous_commit') IN ('off', 'local')`

// afterConnect prepares a new connection.
func (c Config) afterConnect(ctx context.Context, conn *pgx.Conn) error {
	if c.ReadOnly {
		return nil
	}
	if _, err := conn.Exec(ctx, durable); err != nil {
		return fmt.Errorf("setting synchronous_commit: %w", err)
	}
	return nil
}
