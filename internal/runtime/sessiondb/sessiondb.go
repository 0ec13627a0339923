package sessiondb

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

const (
	// StoreName is the name of the store that has the databases of a Session.
	StoreName = "databases"
	// MaxDatabases is the maximum number of databases of a Session.
	MaxDatabases = 8
	// Timeout is how long a call may run once it has a process, and waitTimeout how long it waits for one.
	Timeout     = 5 * time.Second
	waitTimeout = 30 * time.Second
	// maxTries is how often a call runs when other calls change its database meanwhile.
	maxTries = 4
	// DefaultWrites is how many calls that change databases run or are committed at once.
	DefaultWrites = 2

	kindDatabase = "database"
	kindChunk    = "chunk"
)

// names are the names that a database can have.
var names = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Session names the Session of databases.
type Session = record.Session

// ScopeOf returns the store of the databases of a Session.
func ScopeOf(of Session) record.Scope {
	return of.Scope(StoreName)
}

// Service has what the databases of all Sessions share.
type Service struct {
	// Records has the stores.
	Records record.Store
	// Processes run the SQL.
	Processes Processes
	// Writes bound the calls that change databases: each has what it has changed in memory, up to sqlcall.MaxFileBytes and
	// as much again in the form that is stored. Nil bounds nothing.
	Writes *fairshare.Pool
}

// NewWrites returns the places of calls that change databases, which are divided between namespaces.
func NewWrites() *fairshare.Pool {
	return fairshare.NewPool(fairshare.Options{
		Total: fairshare.Amount{Places: DefaultWrites}, PerNamespace: fairshare.Amount{Places: DefaultWrites - 1},
	})
}

// Databases are those of a Session. They are safe for concurrent use.
type Databases struct {
	service *Service
	scope   record.Scope
}

// Of returns the databases of a Session.
func (s *Service) Of(of Session) *Databases {
	return &Databases{service: s, scope: ScopeOf(of)}
}

// Info describes a database.
type Info struct {
	// Name of the database.
	Name string `json:"name"`
	// Bytes is the size of its file.
	Bytes int64 `json:"size_bytes"`
	// Created and Updated are when it was created and last changed.
	Created time.Time `json:"created_at"`
	Updated time.Time `json:"updated_at"`
}

// Statement is SQL with its parameters.
type Statement struct {
	// SQL of at most sqlcall.MaxSQLBytes.
	SQL string
	// Params are the values of the parameters, as JSON.
	Params []json.RawMessage
}

// Executed is the result of Execute.
type Executed struct {
	// RowsAffected is the number of rows that the statements have inserted, changed or deleted.
	RowsAffected int64 `json:"rows_affected"`
	// LastInsertRowID is the id of the last row that was inserted; 0 for none.
	LastInsertRowID int64 `json:"last_insert_rowid,omitempty"`
	// Bytes is the size of the file afterwards.
	Bytes int64 `json:"size_bytes"`
}

// Rows are the result of Query.
type Rows struct {
	Columns []string            `json:"columns"`
	Rows    [][]json.RawMessage `json:"rows"`
	// Truncated reports whether there are more rows, or longer values.
	Truncated bool `json:"truncated"`
}

// Tables are the result of Schema.
type Tables struct {
	Objects []sqlcall.Object `json:"objects"`
	// Truncated reports whether there are more objects.
	Truncated bool `json:"truncated"`
}

// stored is the value of the key of a database.
type stored struct {
	// Bytes is the size of the file, whose parts are values of their own.
	Bytes int64 `json:"bytes"`
}

// List describes all databases, by name.
func (d *Databases) List(ctx context.Context) ([]Info, error) {
	x, err := d.service.Records.List(ctx, d.scope)
	if err != nil {
		return nil, err
	}
	all := []Info{}
	for _, item := range x.Items {
		if item.Kind != kindDatabase {
			continue
		}
		info, err := d.describe(ctx, item)
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// Get describes a database.
func (d *Databases) Get(ctx context.Context, name string) (Info, error) {
	x, item, err := d.find(ctx, name)
	if err != nil {
		return Info{}, err
	}
	if x == nil {
		return Info{}, notFound(name)
	}
	return d.describe(ctx, item)
}

// Create creates an empty database.
func (d *Databases) Create(ctx context.Context, cause record.Cause, name string) (Info, error) {
	if err := checkName(name); err != nil {
		return Info{}, err
	}
	_, err := d.update(ctx, cause, func(x *record.Index) (*record.Operation, error) {
		if _, found := x.Find(name); found {
			return nil, errorf(KindExists, "the database %s exists", name)
		}
		if err := room(x); err != nil {
			return nil, err
		}
		put, err := header(name, 0)
		return &record.Operation{Put: []record.Put{put}}, err
	})
	if err != nil {
		return Info{}, shown(err)
	}
	// A repeated call may come after the database was deleted again.
	info, err := d.Get(ctx, name)
	var about *Error
	if errors.As(err, &about) && about.Kind == KindNotFound {
		return Info{Name: name}, nil
	}
	return info, err
}

// Delete deletes a database.
func (d *Databases) Delete(ctx context.Context, cause record.Cause, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	_, err := d.update(ctx, cause, func(x *record.Index) (*record.Operation, error) {
		if _, found := x.Find(name); !found {
			return nil, notFound(name)
		}
		return &record.Operation{Delete: append(chunksOf(x, name, 0), name)}, nil
	})
	return shown(err)
}

// update carries out an operation that needs no process.
func (d *Databases) update(
	ctx context.Context, cause record.Cause, decide func(*record.Index) (*record.Operation, error),
) (record.Outcome, error) {
	return d.service.Records.Update(ctx, d.scope, cause,
		func(_ context.Context, x *record.Index) (*record.Operation, error) { return decide(x) })
}

// Query reads the rows of one statement, at most so many.
func (d *Databases) Query(ctx context.Context, name string, s Statement, rows int) (*Rows, error) {
	result, err := d.read(ctx, name, sqlcall.Request{Mode: sqlcall.Query, SQL: s.SQL, Params: s.Params, Rows: rows})
	if err != nil {
		return nil, err
	}
	return &Rows{Columns: result.Columns, Rows: result.Rows, Truncated: result.Truncated}, nil
}

// Schema reads the tables, views, indexes and triggers of a database.
func (d *Databases) Schema(ctx context.Context, name string) (*Tables, error) {
	result, err := d.read(ctx, name, sqlcall.Request{Mode: sqlcall.Schema})
	if err != nil {
		return nil, err
	}
	tables := &Tables{Objects: result.Objects, Truncated: result.Truncated}
	if tables.Objects == nil {
		tables.Objects = []sqlcall.Object{}
	}
	return tables, nil
}

// read runs a call that changes nothing. It runs again if the file was changed while it was read.
func (d *Databases) read(ctx context.Context, name string, r sqlcall.Request) (*sqlcall.Result, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	for range maxTries {
		x, item, err := d.find(ctx, name)
		switch {
		case err != nil:
			return nil, err
		case x == nil:
			return nil, notFound(name)
		}
		result, _, err := d.run(ctx, x, item, r)
		if !errors.Is(err, record.ErrNotFound) {
			return result, shown(err)
		}
	}
	return nil, busy(name)
}

// Execute runs statements in one transaction and creates the database if it does not exist.
func (d *Databases) Execute(ctx context.Context, cause record.Cause, name string, s Statement) (*Executed, error) {
	r := sqlcall.Request{Mode: sqlcall.Execute, SQL: s.SQL, Params: s.Params}
	if err := cmp.Or(checkName(name), r.Check()); err != nil {
		return nil, err
	}
	leave, err := d.enter(ctx)
	if err != nil {
		return nil, shown(err)
	}
	defer leave()
	for range maxTries {
		done, err := d.try(ctx, cause, name, r)
		var conflict *record.ConflictError
		if !errors.As(err, &conflict) && !errors.Is(err, record.ErrNotFound) {
			return done, shown(err)
		}
	}
	return nil, busy(name)
}

// try runs statements once, and commits what they have changed. The error is a *record.ConflictError, or has
// record.ErrNotFound, if another call has changed the database meanwhile.
func (d *Databases) try(ctx context.Context, cause record.Cause, name string, r sqlcall.Request) (*Executed, error) {
	x, err := d.service.Records.List(ctx, d.scope)
	if err != nil {
		return nil, err
	}
	if known, found := x.Outcome(cause); found {
		return decode(known.Result)
	}
	item, found := x.Find(name)
	if !found {
		if err := room(x); err != nil {
			return nil, err
		}
	}
	result, chunks, err := d.run(ctx, x, item, r)
	if err != nil {
		return nil, err
	}
	operation, err := commit(x, name, result, chunks)
	if err != nil {
		return nil, err
	}
	operation.Cause = cause
	outcome, err := d.service.Records.Apply(ctx, d.scope, operation)
	if err != nil {
		return nil, err
	}
	return decode(outcome.Result)
}

// commit is the operation that writes what a call has changed. It also writes the key of the database, so that the
// outcome is recorded, and calls on an older file conflict, whatever has changed.
func commit(
	x *record.Index, name string, result *sqlcall.Result, chunks []sqlcall.Chunk,
) (record.Operation, error) {
	before, _ := x.Find(name)
	put, err := header(name, result.Size)
	if err != nil {
		return record.Operation{}, err
	}
	encoded, err := json.Marshal(Executed{
		RowsAffected: result.RowsAffected, LastInsertRowID: result.LastInsertRowID, Bytes: result.Size,
	})
	if err != nil {
		return record.Operation{}, fmt.Errorf("encoding the result of a call: %w", err)
	}
	o := record.Operation{
		Expect: map[string]int64{name: before.Revision}, Put: []record.Put{put}, Result: encoded,
		Delete: chunksOf(x, name, sqlcall.Chunks(result.Size)),
	}
	for _, chunk := range chunks {
		o.Put = append(o.Put, record.Put{Key: chunkKey(name, chunk.Number), Value: chunk.Content, Kind: kindChunk})
	}
	return o, nil
}

// decode reads the result of an operation.
func decode(result []byte) (*Executed, error) {
	done := &Executed{}
	if err := json.Unmarshal(result, done); err != nil {
		return nil, fmt.Errorf("decoding the result of a call: %w", err)
	}
	return done, nil
}

// enter waits for a place for a call that changes a database.
func (d *Databases) enter(ctx context.Context) (leave func(), err error) {
	if d.service.Writes == nil {
		return func() {}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	share, err := d.service.Writes.Request(fairshare.Request{
		Namespace: d.scope.Namespace, Amount: fairshare.Amount{Places: 1}, Continues: true,
	})
	if err != nil {
		return nil, err
	}
	if err := share.Wait(ctx); err != nil {
		share.Release()
		return nil, fmt.Errorf("%w (%w)", runner.ErrNoPlace, err)
	}
	return share.Release, nil
}

// run runs a call on the file of an item of an index; of none for the zero item.
func (d *Databases) run(
	ctx context.Context, x *record.Index, item record.Item, r sqlcall.Request,
) (*sqlcall.Result, []sqlcall.Chunk, error) {
	if d.service.Processes == nil {
		return nil, nil, errors.New("no process runs SQL")
	}
	f := &source{databases: d, index: x, name: item.Key}
	if item.Key != "" {
		info, err := d.describe(ctx, item)
		if err != nil {
			return nil, nil, err
		}
		r.Size = info.Bytes
	}
	limited, cancel := context.WithTimeout(ctx, waitTimeout+Timeout)
	defer cancel()
	return d.service.Processes.Run(limited, d.scope.Namespace, Timeout, r, f)
}

// source is the file of a database as an index names it.
type source struct {
	databases *Databases
	index     *record.Index
	name      string
}

// Read implements sqlcall.Source. The error has record.ErrNotFound if the part was changed since.
func (s *source) Read(ctx context.Context, chunk int) ([]byte, error) {
	item, found := s.index.Find(chunkKey(s.name, chunk))
	if !found {
		return nil, fmt.Errorf("part %d of the database %s is missing", chunk, s.name)
	}
	return s.databases.service.Records.Load(ctx, s.databases.scope, item)
}

// find returns the index and the item of a database; no index if it does not exist.
func (d *Databases) find(ctx context.Context, name string) (*record.Index, record.Item, error) {
	if err := checkName(name); err != nil {
		return nil, record.Item{}, err
	}
	x, err := d.service.Records.List(ctx, d.scope)
	if err != nil {
		return nil, record.Item{}, err
	}
	item, found := x.Find(name)
	if !found {
		return nil, record.Item{}, nil
	}
	return x, item, nil
}

// describe reads the key of a database.
func (d *Databases) describe(ctx context.Context, item record.Item) (Info, error) {
	value, err := d.service.Records.Load(ctx, d.scope, item)
	if err != nil {
		return Info{}, err
	}
	var s stored
	if err := json.Unmarshal(value, &s); err != nil {
		return Info{}, fmt.Errorf("decoding the database %s: %w", item.Key, err)
	}
	return Info{Name: item.Key, Bytes: s.Bytes, Created: item.Created, Updated: item.Modified}, nil
}

// header is the value of the key of a database.
func header(name string, size int64) (record.Put, error) {
	value, err := json.Marshal(stored{Bytes: size})
	if err != nil {
		return record.Put{}, fmt.Errorf("encoding the database %s: %w", name, err)
	}
	return record.Put{Key: name, Value: value, Kind: kindDatabase}, nil
}

// chunkKey is the key of a part of a file. No database has such a name.
func chunkKey(name string, chunk int) string {
	return fmt.Sprintf("%s/%04d", name, chunk)
}

// chunksOf are the keys of the parts of a file, from a number on.
func chunksOf(x *record.Index, name string, from int) []string {
	var keys []string
	for _, item := range x.Items {
		if strings.HasPrefix(item.Key, name+"/") && item.Key >= chunkKey(name, from) {
			keys = append(keys, item.Key)
		}
	}
	return keys
}

// room returns an error if a Session has no room for a further database.
func room(x *record.Index) error {
	count := 0
	for _, item := range x.Items {
		if item.Kind == kindDatabase {
			count++
		}
	}
	if count >= MaxDatabases {
		return errorf(sqlcall.KindLimit, "a session has at most %d databases: delete one", MaxDatabases)
	}
	return nil
}

func checkName(name string) error {
	if names.MatchString(name) {
		return nil
	}
	return errorf(KindName, "the name of a database has at most 63 lower-case letters, digits, '-' and '_', and begins "+
		"with a letter")
}

func notFound(name string) error {
	return errorf(KindNotFound, "the database %s does not exist", name)
}

func busy(name string) error {
	return errorf(sqlcall.KindTimeout, "other calls have changed the database %s %d times meanwhile: nothing was "+
		"changed, call again", name, maxTries)
}
