// The programs whose traces are in this folder, written by Go 1.26. To write one again:
//
//	go build -trimpath -o programs go_programs.go && ./programs syscalls go_syscalls.trace 60

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/trace"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func pingpong(n int) {
	a, b := make(chan int), make(chan int)
	go func() {
		for v := range a {
			b <- v + 1
		}
		close(b)
	}()
	for i := 0; i < n; i++ {
		a <- i
		<-b
	}
	close(a)
}

func fan(n int) {
	var wg sync.WaitGroup
	for i := 0; i < n; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			s := 0
			for j := 0; j < 2000; j++ {
				s += j
			}
			runtime.KeepAlive(s)
		}()
	}
	wg.Wait()
}

func syscalls(n int) {
	var wg sync.WaitGroup
	for k := 0; k < 4; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < n; i++ {
				ts := syscall.Timespec{Nsec: 300000}
				if i%3 == 0 {
					ts.Nsec = 1000
				}
				syscall.Nanosleep(&ts, nil)
			}
		}()
	}
	wg.Wait()
}

func network(n int) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	var wg sync.WaitGroup
	for k := 0; k < 8; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				panic(err)
			}
			buf := make([]byte, 64)
			for i := 0; i < n; i++ {
				c.Write(buf)
				io.ReadFull(c, buf)
			}
			c.Close()
		}()
	}
	wg.Wait()
	l.Close()
}

var sink [][]byte

func gc(n int) {
	var wg sync.WaitGroup
	for k := 0; k < 4; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var keep [][]byte
			for i := 0; i < n; i++ {
				keep = append(keep, make([]byte, 4096))
				if len(keep) > 1000 {
					keep = nil
				}
			}
			runtime.KeepAlive(keep)
		}()
	}
	wg.Wait()
}

func annotated(n int) {
	ctx, task := trace.NewTask(context.Background(), "request batch")
	defer task.End()
	for i := 0; i < n; i++ {
		ctx2, t2 := trace.NewTask(ctx, "request")
		var wg sync.WaitGroup
		wg.Add(1)
		go func() {
			defer wg.Done()
			trace.WithRegion(ctx2, "parse", func() {
				trace.Logf(ctx2, "request", "number %d", i)
				trace.WithRegion(ctx2, "inner", func() { time.Sleep(200 * time.Microsecond) })
			})
		}()
		wg.Wait()
		t2.End()
	}
}

func locks(n int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	x := 0
	for k := 0; k < 10; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; i < n; i++ {
				mu.Lock()
				for j := 0; j < 1000; j++ {
					x++
				}
				mu.Unlock()
				if i%50 == 0 {
					runtime.Gosched()
				}
			}
		}()
	}
	wg.Wait()
}

func spin(d time.Duration) {
	var wg sync.WaitGroup
	for k := 0; k < 5; k++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			t := time.Now()
			for time.Since(t) < d {
			}
		}()
	}
	wg.Wait()
}

func main() {
	kind := os.Args[1]
	n, _ := strconv.Atoi(os.Args[3])
	if len(os.Args) > 4 {
		debug.SetGCPercent(-1)
	}
	f, _ := os.Create(os.Args[2])
	idle := make(chan int)
	for i := 0; i < 3; i++ {
		go func() { <-idle }()
	}
	if err := trace.Start(f); err != nil {
		panic(err)
	}
	switch kind {
	case "pingpong":
		pingpong(n)
	case "fan":
		fan(n)
	case "syscalls":
		syscalls(n)
	case "network":
		network(n)
	case "gc":
		gc(n)
	case "annotated":
		annotated(n)
	case "locks":
		locks(n)
	case "spin":
		spin(time.Duration(n) * time.Millisecond)
	case "procs":
		for i := 0; i < n; i++ {
			runtime.GOMAXPROCS(1 + i%6)
			fan(20)
			syscalls(5)
		}
	case "exec":
		for i := 0; i < n; i++ {
			exec.Command("/bin/true").Run()
		}
	case "all":
		for i := 0; i < n; i++ {
			fan(50)
			pingpong(200)
			syscalls(20)
			network(20)
			gc(1000)
			annotated(10)
			locks(100)
			spin(30 * time.Millisecond)
		}
	case "timers":
		var wg sync.WaitGroup
		for i := 0; i < n; i++ {
			wg.Add(1)
			go func() {
				defer wg.Done()
				select {
				case <-time.After(time.Duration(i%50) * time.Millisecond):
				case <-idle:
				}
			}()
		}
		wg.Wait()
	default:
		fmt.Println("what?")
	}
	trace.Stop()
	f.Close()
}
