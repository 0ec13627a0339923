package streaming

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// splice copies what one connection receives to another, and closes both at the end.
func splice(to, from *connection) {
	// Either side may end at any time, which is how connections end.
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}

// recordHeader is the length of the header of a TLS record, and maxRecord bounds what follows it: the text of a record
// and what encryption adds.
const recordHeader, maxRecord = 5, 1<<14 + 2048

// untilAdmission copies the answer of the leader, one TLS record after the other, until the leader has told that the
// caller is known.
func untilAdmission(to, leader *connection) error {
	buffer := make([]byte, recordHeader+maxRecord)
	for {
		if _, err := io.ReadFull(leader, buffer[:recordHeader]); err != nil {
			return err
		}
		if buffer[0] == admission[0] {
			if _, err := io.ReadFull(leader, buffer[recordHeader:len(admission)]); err != nil {
				return err
			}
			if !bytes.Equal(buffer[:len(admission)], admission) {
				return errors.New("the answer of the leader is not TLS")
			}
			return nil
		}
		length := int(binary.BigEndian.Uint16(buffer[recordHeader-2:]))
		if length > maxRecord {
			return errors.New("the answer of the leader has a TLS record that is too large")
		}
		record := buffer[:recordHeader+length]
		if _, err := io.ReadFull(leader, record[recordHeader:]); err != nil {
			return err
		}
		if _, err := to.Write(record); err != nil {
			return err
		}
	}
}

// quiet returns a logger for the HTTP server, whose reports are about callers that do not speak TLS or leave.
func quiet(to logr.Logger) *log.Logger { return log.New(quietWriter{to}, "", 0) }

type quietWriter struct{ to logr.Logger }

// Write implements io.Writer.
func (q quietWriter) Write(p []byte) (int, error) {
	q.to.V(1).Info("HTTP server of event streams", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
