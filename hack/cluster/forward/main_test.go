package main

import (
	"io"
	"net"
	"testing"
)

// listen opens a port of the loopback address for the length of a test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener
}

func TestBothDirectionsAndTheirEndsArePassedOn(t *testing.T) {
	server, front := listen(t), listen(t)
	go func() { _ = serve(front, server.Addr().String()) }()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// Answers only after the request has ended: the end must have been passed on.
		request, err := io.ReadAll(conn)
		if err == nil {
			_, _ = conn.Write(append([]byte("echo "), request...))
		}
	}()

	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil || string(answer) != "echo hello" {
		t.Errorf("the answer is %q, %v", answer, err)
	}
}

func TestAConnectionWithoutAServerIsClosed(t *testing.T) {
	gone, front := listen(t), listen(t)
	address := gone.Addr().String()
	gone.Close()
	go func() { _ = serve(front, address) }()
	conn, err := net.Dial("tcp", front.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes", n)
	}
}
