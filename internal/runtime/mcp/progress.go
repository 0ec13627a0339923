package mcp

import (
	"sync"

	"github.com/google/uuid"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Progress is what a server reports about a call in progress. It is as the server has sent it.
type Progress struct {
	Message string
	// Done is how far the call has come, and Total its value at the end; 0 if it is unknown.
	Done, Total float64
}

// receiver passes the notices of progress on that are about the call in progress.
type receiver struct {
	mu    sync.Mutex
	token string
	next  func(Progress)
}

// begin passes the notices of a call on, and returns the token that they have. No server can guess that of the call of
// another connection.
func (r *receiver) begin(next func(Progress)) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token, r.next = uuid.NewString(), next
	return r.token
}

// end passes nothing on any more.
func (r *receiver) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.token, r.next = "", nil
}

func (r *receiver) receive(p *sdk.ProgressNotificationParams) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token, _ := p.ProgressToken.(string); r.next == nil || token != r.token {
		return
	}
	r.next(Progress{Message: p.Message, Done: p.Progress, Total: p.Total})
}
