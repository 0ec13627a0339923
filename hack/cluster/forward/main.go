// Command forward passes TCP connections from one address on to another. A development cluster listens with it on the
// address of the Service kubernetes, in place of a kube-proxy.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"sync"
)

func main() {
	listen := flag.String("listen", "", "address to listen on")
	to := flag.String("to", "", "address to pass connections on to")
	flag.Parse()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(serve(listener, *to))
}

func serve(listener net.Listener, to string) error {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go forward(conn.(*net.TCPConn), to)
	}
}

func forward(client *net.TCPConn, to string) {
	defer client.Close()
	dialled, err := net.Dial("tcp", to)
	if err != nil {
		log.Print(err)
		return
	}
	server := dialled.(*net.TCPConn)
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() { pass(server, client) })
	both.Go(func() { pass(client, server) })
	both.Wait()
}

// pass copies one direction and hands its end on. When the copy fails the other direction is of no use either.
func pass(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		to.Close()
		from.Close()
		return
	}
	_ = to.CloseWrite()
}
