package sqlite

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"

	"github.com/capstan-dev/capstan/internal/runtime/sessiondb/sqlcall"
)

// query reads the rows of one statement.
func query(c *sqlite3.Conn, r sqlcall.Request) (*sqlcall.Result, error) {
	s, err := only(c, r.SQL)
	if err != nil {
		return nil, err
	}
	if err := bind(s, r.Params); err != nil {
		return nil, err
	}
	most := min(max(r.Rows, 1), sqlcall.MaxRows)
	result := &sqlcall.Result{Columns: make([]string, s.ColumnCount()), Rows: [][]json.RawMessage{}}
	size := 0
	for i := range result.Columns {
		result.Columns[i] = valid(s.ColumnName(i))
		size += len(result.Columns[i]) + len(`"",`)
	}
	for s.Step() {
		if len(result.Rows) == most {
			result.Truncated = true
			return result, nil
		}
		row, bytes, cut, err := read(s)
		if err != nil {
			return nil, err
		}
		if size += bytes; size > sqlcall.MaxResultBytes {
			if len(result.Rows) == 0 {
				return nil, sqlcall.Problemf(sqlcall.KindTooLarge,
					"the first row has more than %d bytes: select fewer or shorter columns", sqlcall.MaxResultBytes)
			}
			result.Truncated = true
			return result, nil
		}
		result.Rows, result.Truncated = append(result.Rows, row), result.Truncated || cut
	}
	return result, s.Err()
}

// only prepares SQL of one statement that reads.
func only(c *sqlite3.Conn, sql string) (*sqlite3.Stmt, error) {
	s, tail, err := c.Prepare(sql)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		return nil, sqlcall.Problemf(sqlcall.KindQuery, "there is no statement to run")
	case !s.ReadOnly():
		return nil, sqlcall.Problemf(sqlcall.KindBlocked, "a query only reads: use sql_execute to change the database")
	}
	for strings.TrimSpace(tail) != "" {
		next, rest, err := c.Prepare(tail)
		if err != nil || next != nil {
			return nil, sqlcall.Problemf(sqlcall.KindQuery, "a query has one statement: send a call for each")
		}
		tail = rest
	}
	return s, nil
}

// bind sets the parameters of a statement.
func bind(s *sqlite3.Stmt, params []json.RawMessage) error {
	if count := s.BindCount(); count != len(params) {
		return sqlcall.Problemf(sqlcall.KindQuery, "the statement has %d parameters, and params has %d values", count,
			len(params))
	}
	for i, encoded := range params {
		decoder := json.NewDecoder(bytes.NewReader(encoded))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return sqlcall.Problemf(sqlcall.KindQuery, "parameter %d is not valid JSON", i+1)
		}
		if err := bindOne(s, i+1, value); err != nil {
			return err
		}
	}
	return nil
}

func bindOne(s *sqlite3.Stmt, number int, value any) error {
	switch v := value.(type) {
	case nil:
		return s.BindNull(number)
	case bool:
		return s.BindBool(number, v)
	case string:
		return s.BindText(number, v)
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return s.BindInt64(number, whole)
		}
		float, err := v.Float64()
		if err != nil {
			return sqlcall.Problemf(sqlcall.KindQuery, "parameter %d is too large a number", number)
		}
		return s.BindFloat(number, float)
	default:
		return sqlcall.Problemf(sqlcall.KindQuery,
			"parameter %d is an array or an object: send its JSON as a string", number)
	}
}

// read returns the values of a row, their size as JSON, and whether one was shortened.
func read(s *sqlite3.Stmt) (row []json.RawMessage, size int, cut bool, err error) {
	row = make([]json.RawMessage, s.ColumnCount())
	for i := range row {
		value, short := cell(s, i)
		// An encoder adds a line break, and escapes nothing for HTML.
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(value); err != nil {
			return nil, 0, false, fmt.Errorf("encoding a value: %w", err)
		}
		row[i] = bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
		size, cut = size+len(row[i])+1, cut || short
	}
	return row, size + 2, cut, s.Err()
}

// cell returns a value of a row, and whether it was shortened. A blob is written as SQL writes it.
func cell(s *sqlite3.Stmt, column int) (value any, cut bool) {
	switch s.ColumnType(column) {
	case sqlite3.INTEGER:
		return s.ColumnInt64(column), false
	case sqlite3.FLOAT:
		if f := s.ColumnFloat(column); !math.IsInf(f, 0) && !math.IsNaN(f) {
			return f, false
		}
		return s.ColumnText(column), false
	case sqlite3.TEXT:
		raw := s.ColumnRawText(column)
		if len(raw) <= sqlcall.MaxCellBytes {
			return valid(string(raw)), false
		}
		end := sqlcall.MaxCellBytes
		for end > 0 && !utf8.RuneStart(raw[end]) {
			end--
		}
		return valid(string(raw[:end])) + "… (" + strconv.Itoa(len(raw)) + " bytes)", true
	case sqlite3.BLOB:
		raw := s.ColumnRawBlob(column)
		if len(raw) <= sqlcall.MaxCellBytes/2 {
			return "x'" + hex.EncodeToString(raw) + "'", false
		}
		return "x'" + hex.EncodeToString(raw[:sqlcall.MaxCellBytes/2]) + "…' (" + strconv.Itoa(len(raw)) + " bytes)", true
	default:
		return nil, false
	}
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// maxObjects is the maximum number of objects of a schema.
const maxObjects = 200

// schema reads the objects of the database.
func schema(c *sqlite3.Conn) (*sqlcall.Result, error) {
	s, _, err := c.Prepare(`SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'
		ORDER BY tbl_name, type = 'table' DESC, type, name`)
	if err != nil {
		return nil, err
	}
	result := &sqlcall.Result{}
	size := 0
	for s.Step() {
		o := sqlcall.Object{Type: s.ColumnText(0), Name: valid(s.ColumnText(1)), SQL: valid(s.ColumnText(3))}
		if table := valid(s.ColumnText(2)); table != o.Name {
			o.Table = table
		}
		encoded, err := json.Marshal(o)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if size += len(encoded) + 1; size > sqlcall.MaxResultBytes || len(result.Objects) == maxObjects {
			result.Truncated = true
			return result, nil
		}
		result.Objects = append(result.Objects, o)
	}
	return result, s.Err()
}
