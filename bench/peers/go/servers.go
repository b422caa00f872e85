// Servers for the load programs: each prints "listening <port>" and answers until it is killed.
package main

import (
	"fmt"
	"net"
	"net/http"
)

func listenOnAnyPort() net.Listener {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err.Error())
	}
	fmt.Printf("listening %d\n", listener.Addr().(*net.TCPAddr).Port)
	return listener
}

func echoServer() {
	listener := listenOnAnyPort()
	for {
		client, err := listener.Accept()
		if err != nil {
			fail(err.Error())
		}
		go func() {
			defer client.Close()
			bytes := make([]byte, 4096)
			for {
				n, err := client.Read(bytes)
				if err != nil {
					return
				}
				if _, err := client.Write(bytes[:n]); err != nil {
					return
				}
			}
		}()
	}
}

func helloServer() {
	body := []byte("Hello, world!\n")
	err := http.Serve(listenOnAnyPort(), http.HandlerFunc(
		func(answer http.ResponseWriter, _ *http.Request) {
			answer.Header().Set("Content-Type", "text/plain")
			answer.Write(body)
		}))
	fail(err.Error())
}
