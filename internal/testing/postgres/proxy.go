package postgres

import (
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
)

// Cut is where a Proxy cuts a connection.
type Cut struct {
	// Response cuts the response to a request that the server has carried out; otherwise the request is cut.
	Response bool
	// Bytes is how many bytes of it are passed on.
	Bytes int
}

// Proxy passes the bytes of connections on to a server, and cuts them.
type Proxy struct {
	listener net.Listener
	server   string

	mu   sync.Mutex
	cut  *Cut
	open map[net.Conn]bool
	cuts int
	// largest are the lengths of the longest request and response that it has passed on.
	longestRequest, longestResponse int
}

// Proxy returns a proxy of the server. It ends with the test.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, server: s.Address(), open: map[net.Conn]bool{}}
	var group sync.WaitGroup
	group.Go(func() { p.accept(&group) })
	t.Cleanup(func() {
		_ = listener.Close()
		p.CutAll()
		group.Wait()
	})
	return p
}

// Connection is the connection string of an account for a database through the proxy.
func (p *Proxy) Connection(account, database string) string {
	port := p.listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	return "host=127.0.0.1 port=" + strconv.Itoa(port) + " user=" + account + " dbname=" + database
}

// CutNext cuts the next exchange at a point.
func (p *Proxy) CutNext(c Cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &c
}

// Cuts is the number of exchanges that were cut.
func (p *Proxy) Cuts() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

// Longest returns the lengths of the longest request and response since the last call.
func (p *Proxy) Longest() (request, response int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	request, response = p.longestRequest, p.longestResponse
	p.longestRequest, p.longestResponse = 0, 0
	return request, response
}

// CutAll cuts all open connections.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *Proxy) accept(group *sync.WaitGroup) {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp4", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open[client], p.open[server] = true, true
		p.mu.Unlock()
		group.Go(func() { p.serve(client, server) })
	}
}

// serve passes requests and responses on, one after the other: a request is what the client sends at once, its response
// what the server sends until it waits for the next request.
func (p *Proxy) serve(client, server net.Conn) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, client)
		delete(p.open, server)
		_, _ = client.Close(), server.Close()
	}()
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		cut := p.take(n)
		if cut != nil && !cut.Response {
			_, _ = server.Write(buffer[:min(cut.Bytes, n)])
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
		response, err := readResponse(server)
		p.mu.Lock()
		p.longestResponse = max(p.longestResponse, len(response))
		p.mu.Unlock()
		if cut != nil {
			response = response[:min(cut.Bytes, len(response))]
		}
		if _, failed := client.Write(response); failed != nil || err != nil || cut != nil {
			return
		}
	}
}

// take returns the cut of the next exchange.
func (p *Proxy) take(request int) *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longestRequest = max(p.longestRequest, request)
	cut := p.cut
	if cut != nil {
		p.cut, p.cuts = nil, p.cuts+1
	}
	return cut
}

// readResponse reads messages of the server until it is ready for the next request, or asks for a password.
func readResponse(server io.Reader) ([]byte, error) {
	var all []byte
	for {
		header := make([]byte, 5)
		if _, err := io.ReadFull(server, header); err != nil {
			return all, err
		}
		length := int(header[1])<<24 | int(header[2])<<16 | int(header[3])<<8 | int(header[4])
		if length < 4 || length > 1<<26 {
			return all, errors.New("a message of an invalid length")
		}
		body := make([]byte, length-4)
		_, err := io.ReadFull(server, body)
		all = append(append(all, header...), body...)
		authentication := header[0] == 'R' && len(body) >= 4 && body[3] != 0 && body[3] != 12
		if err != nil || header[0] == 'Z' || authentication {
			return all, err
		}
	}
}
