package recordtest

import (
	"bytes"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// everyOwner writes to stores of an MCPServer and of a wallet, beside that of a Session.
func everyOwner(f *fixture) {
	for name, own := range map[string]func(*record.Scope){
		"session": func(*record.Scope) {},
		"server":  func(s *record.Scope) { s.Session, s.MCPServer = "", s.Session },
		"wallet":  func(s *record.Scope) { s.Session, s.Secret = "", s.Session },
	} {
		scope, value := newScope(), bytes.Repeat([]byte(name), 2000)
		own(&scope)
		outcome, err := f.store().Apply(f.t.Context(), scope, record.Operation{
			Cause: record.Cause{Step: 1, Key: "write"},
			Put:   []record.Put{{Key: "small", Value: []byte(name)}, {Key: "large", Value: value}},
		})
		if err != nil || outcome.Revision == 0 {
			f.t.Errorf("%s: %+v, %v", scope.Owner(), outcome, err)
			continue
		}
		x, err := f.store().List(f.t.Context(), scope)
		if err != nil {
			f.t.Errorf("%s: %v", scope.Owner(), err)
			continue
		}
		item, _ := x.Find("large")
		if read, err := f.store().Load(f.t.Context(), scope, item); err != nil || !bytes.Equal(read, value) {
			f.t.Errorf("%s: %d bytes, %v", scope.Owner(), len(read), err)
		}
	}
}
